"""Results of one task for a prediction, and for the two rules that every learner stands beside.

These are choosing at random, and the whole device's choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.evaluation._sides import NOVELTY
from costmodel.learners._base import Prediction
from costmodel.learners._metrics import (
    covered,
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    listed_first,
    log_excess,
    median_width,
    ranked_n_eps,
    regret_error,
    relative_error,
    score_at_k,
)

RANDOM = "random"
WHOLE_DEVICE = "whole device"
KS = (1, 5, 10, 25)
EPS = 0.05


def whole_device_latency(rows: pd.DataFrame) -> FloatArray:
    """``(n,)`` latency of each row's candidate at its device's largest SM budget; inf if not measured."""
    keys = ["device", "candidate"]
    latency_of = rows[select_whole_device(rows)].groupby(keys)["latency_s"].min()
    latencies = latency_of.reindex(pd.MultiIndex.from_frame(rows[keys]))
    return latencies.fillna(np.inf).to_numpy(dtype=np.float64)


def judge_random(latency_s: FloatArray) -> dict[str, Any]:
    """Exact expectations of one task's results for configs drawn at random.

    The regret is that of the expected log excess, over configs that run; scores count failures as 0.
    """
    excess = expected_log_excess(latency_s)
    return {
        **{f"score_at_{k}": expected_score_at_k(latency_s, k) for k in KS},
        "regret_error": float(np.expm1(excess)),
        "n_eps": expected_n_eps(latency_s, EPS),
        "log_excess": excess,
        **judge_latency(Prediction(np.zeros(latency_s.size)), latency_s),
    }


def judge(
    prediction: Prediction, latency_s: FloatArray, first: NDArray[np.intp] | None = None
) -> dict[str, Any]:
    """One task's results for configs chosen by a prediction, after those that the model lists first.

    Configs with the same score count as in random order, see ``tie_groups``. A choice that fails
    scores 0 and has infinite regret, but it is found out before it is ever used: the log excess is that of
    the first choice that runs, as it is for a choice at random.
    """
    by = prediction.score if first is None else listed_first(prediction.score, first)
    return {
        **{f"score_at_{k}": score_at_k(by, latency_s, k) for k in KS},
        "regret_error": regret_error(by, latency_s),
        "n_eps": ranked_n_eps(by, latency_s, EPS),
        "log_excess": log_excess(by, latency_s),
        **judge_latency(prediction, latency_s),
    }


def judge_latency(prediction: Prediction, latency_s: FloatArray) -> dict[str, Any]:
    """Judge a prediction's seconds and its intervals; NaN for what it does not tell."""
    ran, predicted_s = np.isfinite(latency_s), prediction.latency_s
    result = {"latency_error": np.nan, "log_bias": np.nan}
    if predicted_s is not None:
        result["latency_error"] = relative_error(predicted_s, latency_s)
        # What all of them are off by.
        result["log_bias"] = float(np.log(predicted_s[ran] / latency_s[ran]).mean())
    return result | judge_interval(prediction, latency_s)


def judge_interval(prediction: Prediction, latency_s: FloatArray) -> dict[str, float]:
    """Count configs that ``ran`` and those of them that are ``covered``, with the median ``interval_width``.

    The width is high / low; what a prediction does not tell, or nothing ran for, is NaN.
    """
    low_s, high_s = prediction.low_s, prediction.high_s
    ran = int(np.isfinite(latency_s).sum())
    if low_s is None or high_s is None or not ran:
        return {"ran": ran, "covered": np.nan, "interval_width": np.nan}
    within = covered(low_s, high_s, latency_s)
    return {"ran": ran, "covered": float(within.sum()), "interval_width": median_width(low_s, high_s)}


def prediction_at(prediction: Prediction, at: NDArray[np.intp]) -> Prediction:
    """Return what a prediction says of the candidates at these positions."""
    fields = (prediction.latency_s, prediction.low_s, prediction.high_s)
    return Prediction(prediction.score[at], *(None if values is None else values[at] for values in fields))


_FACTS = ("workload", "kind", "device", "sms_granted", "whole_device", *NOVELTY)


@dataclass(frozen=True)
class TestedTask:
    """A task that a fold tests.

    Attributes:
        facts: What it is, by column of ``EvaluationReport.tasks``.
        at: ``(n,)`` positions of its rows among those that the fold tests.
        latency_s: ``(n,)`` their latencies; inf for a failure.
    """

    facts: dict[str, Any]
    at: NDArray[np.intp]
    latency_s: FloatArray


def tested_tasks(rows: pd.DataFrame) -> Iterator[TestedTask]:
    """Each task of these rows that tells of choosing: it has two configs or more, of which one ran."""
    latencies = rows["latency_s"].to_numpy(dtype=np.float64)
    columns = {name: rows[name].to_numpy() for name in _FACTS if name in rows}
    for task, indices in rows.groupby("task", sort=False).indices.items():
        at = np.asarray(indices, dtype=np.intp)
        if len(at) > 1 and np.isfinite(latencies[at]).any():
            facts = {name: values[at[0]] for name, values in columns.items()}
            yield TestedTask({"task": task, "configs": len(at), **facts}, at, latencies[at])


def judge_tasks(name: str, prediction: Prediction, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Results of a learner's predictions for these rows, task by task, as in ``EvaluationReport.tasks``."""
    for task in tested_tasks(rows):
        found = judge(prediction_at(prediction, task.at), task.latency_s)
        yield {"learner": name, **task.facts, **found}
