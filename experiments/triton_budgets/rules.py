"""Rules that learn nothing: what the author ships, and what a formula says is fastest."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.dataset import Dataset
from costmodel.evaluation._judge import judge_tasks
from costmodel.kernels.triton._source import TritonSource
from costmodel.learners import Prediction
from costmodel.records import Workload
from costmodel.transfer import LearningRows

DEFAULT, ANALYTIC = "author's default", "analytic time"
ANALYTIC_COLUMN = "log2_analytic_s"


def judge_rules(data: Dataset) -> pd.DataFrame:
    """Results of the rules on every task, as in ``EvaluationReport.tasks``."""
    scores = {DEFAULT: agreement(data), ANALYTIC: analytic(data)}
    rows = [row for name, score in scores.items() for row in judge_tasks(name, Prediction(score), data.rows)]
    return pd.DataFrame(rows)


def analytic(data: Dataset) -> FloatArray:
    """``(n,)`` log of how much faster a config should be by what is known of its launch; worst if unknown."""
    table = LearningRows.of(data).table
    return np.nan_to_num(-table.values[:, table.index(ANALYTIC_COLUMN)], nan=-np.inf)


def agreement(data: Dataset) -> FloatArray:
    """``(n,)`` share of each config's parameters that are as the author would have them for the workload.

    Where the author's config itself was not measured those most like it stand for it.
    """
    source, shares = TritonSource(), list[float]()
    for candidate in data.candidates:
        wanted, chosen = _default(source, candidate.workload), candidate.config.decisions
        shares.append(sum(chosen[name] == wanted.get(name) for name in chosen) / len(chosen))
    return np.array(shares)[data.rows["candidate"].to_numpy()]


def default_was_measured(data: Dataset) -> float:
    """Share of the tasks in which the author's default is among the configs."""
    has = pd.Series(agreement(data) == 1.0).groupby(data.rows["task"].astype(str).to_numpy()).any()
    return float(has.mean())


@cache
def _default(source: TritonSource, workload: Workload) -> Mapping[str, Any]:
    """The author's config, or the valid one that is most like it."""
    if not source.makes(workload, "cuda"):
        return {}
    return source.space(workload, "cuda").default.decisions
