"""Train on one side of each split, choose on the other, and judge the choices task by task."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset import Dataset, Split, SplitRecipe, make_split
from costmodel.evaluation._judge import (
    RANDOM,
    WHOLE_DEVICE,
    FloatArray,
    judge,
    judge_random,
    on_whole_device,
    whole_device_latency,
)
from costmodel.evaluation._report import Report
from costmodel.evaluation._rows import LearningRows
from costmodel.features import Column
from costmodel.learners import Prediction
from costmodel.transfer import TransferModel

ModelFactory = Callable[[Sequence[Column]], TransferModel]


def evaluate(
    dataset: Dataset,
    models: Mapping[str, ModelFactory],
    *,
    split: str | Split = "leave-one-workload-out",
    on_fold: Callable[[str, str], None] | None = None,
) -> Report:
    """Judge models on what each fold holds out, beside the two references.

    The whole device's choice is a reference only where some tasks have a part of one.

    Tasks of which no config ran are left out of the judgement.

    Args:
        dataset: What was measured.
        models: For each name, a function that makes an unfitted model for a feature table's columns.
        split: A split of the dataset, or the name of a strategy, then with default parameters.
        on_fold: Called with the held-out value and the model's name before each fit.

    Raises:
        CostModelError: The split is unknown, or the dataset has nothing to hold out.
    """
    rows = dataset.rows
    if isinstance(split, str):
        split = make_split(dataset, SplitRecipe(split))
    data = LearningRows.of(dataset)
    tested = np.sort(np.concatenate([fold.test for fold in split.folds]))
    results = list(_judge_references(rows, tested))
    seconds = dict.fromkeys(models, 0.0)
    for fold in split.folds:
        for name, make in models.items():
            if on_fold:
                on_fold(fold.held_out, name)
            start = time.perf_counter()
            model = data.fit(make(data.table.columns), fold.train)
            prediction = model.predict(data.table.values[fold.test])
            seconds[name] += time.perf_counter() - start
            results.extend(judge_tasks(name, prediction, rows.iloc[fold.test]))
    # A task is as new as what was held out of it.
    cluster = "device" if split.recipe.column in ("device", "architecture") else "workload"
    return Report(pd.DataFrame(results), split.name, seconds, cluster=cluster)


def judge_tasks(name: str, prediction: Prediction, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Results of a learner's predictions for these rows, task by task, as in ``Report.tasks``."""
    for facts, at, latency_s in _tasks(rows):
        predicted_s = None if prediction.latency_s is None else prediction.latency_s[at]
        yield {"learner": name, **facts, **judge(prediction.score[at], predicted_s, latency_s)}


def _judge_references(rows: pd.DataFrame, tested: NDArray[np.intp]) -> Iterator[dict[str, Any]]:
    """Results on the rows at these positions; the whole device's choice may know the others."""
    whole_s = whole_device_latency(rows)[tested]
    has_parts = not on_whole_device(rows).all()
    for facts, at, latency_s in _tasks(rows.iloc[tested]):
        yield {"learner": RANDOM, **facts, **judge_random(latency_s)}
        if has_parts:
            yield {"learner": WHOLE_DEVICE, **facts, **judge(-whole_s[at], None, latency_s)}


def _tasks(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], NDArray[np.intp], FloatArray]]:
    """What each task is, the positions of its rows, and its latencies."""
    latencies = rows["latency_s"].to_numpy(dtype=np.float64)
    for task, indices in rows.groupby("task", sort=False).indices.items():
        at = np.asarray(indices, dtype=np.intp)
        if np.isfinite(latencies[at]).any():
            first = rows.iloc[at[0]]
            facts = {column: first[column] for column in ("workload", "kind", "device", "sms_granted")}
            yield {"task": task, "configs": len(at), **facts}, at, latencies[at]
