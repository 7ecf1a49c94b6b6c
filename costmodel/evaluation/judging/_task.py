"""Tasks that a fold tests, and results for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.evaluation.judging._judge import judge, prediction_at
from costmodel.evaluation.sides._novelty import NOVELTY
from costmodel.learners._base import Prediction

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
