"""Train on one side of each fold, choose on the other, and judge the choices task by task."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.dataset import Dataset, Fold, Split, SplitRecipe, draw_rows, make_split, on_whole_device
from costmodel.evaluation._few_shot import FewShot, Fixed, measure_at_random, measure_in_turn
from costmodel.evaluation._judge import (
    KS,
    RANDOM,
    WHOLE_DEVICE,
    judge,
    judge_random,
    prediction_at,
    whole_device_latency,
)
from costmodel.evaluation._novelty import NOVELTY, novelty
from costmodel.evaluation._report import Report
from costmodel.evaluation._sample import sample_tasks
from costmodel.evaluation._sides import SharedTasks, put_apart
from costmodel.features import Column
from costmodel.learners import Prediction
from costmodel.transfer import LearningRows, Posterior, TransferModel, shortlist

ModelFactory = Callable[[Sequence[Column]], TransferModel]
# One factory, or one for each run of a learner that draws at random.
Runs: TypeAlias = ModelFactory | Sequence[ModelFactory]

_FACTS = ("workload", "kind", "device", "sms_granted", "whole_device", *NOVELTY)


def evaluate(  # noqa: PLR0913 (settings, all with defaults)
    dataset: Dataset,
    models: Mapping[str, Runs],
    *,
    split: str | Split = "leave-one-workload-out",
    few_shot: FewShot | None = None,
    tasks: int | None = None,
    on_fold: Callable[[str, str], None] | None = None,
) -> Report:
    """Judge models on what each fold holds out, beside the two references.

    The whole device's choice is a reference only where some tasks have a part of one, and where their configs
    were measured on the whole. Tasks of which no config ran are left out of the judgement.

    Args:
        dataset: What was measured.
        models: For each name, a function that makes an unfitted model for a feature table's columns; or
            several, such as one a seed, each of which is one run of that learner.
        split: A split of the dataset, or the name of a strategy, then with default parameters.
        few_shot: How the tested tasks are measured, too; None judges without measurements only.
        tasks: Judge so many tasks instead of all, see ``sample_tasks``.
        on_fold: Called with the held-out value and the model's name before each fit.

    Raises:
        CostModelError: The split is unknown, or the dataset has nothing to hold out.
    """
    if isinstance(split, str):
        split = make_split(dataset, SplitRecipe(split))
    # A task is as new as what was held out of it.
    cluster = "device" if split.recipe.column in ("device", "architecture") else "workload"
    held_out = _HeldOut.of(dataset, split.folds, tasks)
    return held_out.judge(models, split.name, cluster, few_shot, on_fold)


def evaluate_between(  # noqa: PLR0913 (settings, all with defaults)
    train: Sequence[Dataset],
    test: Dataset,
    models: Mapping[str, Runs],
    *,
    shared_tasks: SharedTasks = "refuse",
    few_shot: FewShot | None = None,
    tasks: int | None = None,
    on_fold: Callable[[str, str], None] | None = None,
) -> Report:
    """Judge models that learned from all of some datasets on all of another, see ``evaluate``.

    Args:
        train: What is learned from.
        test: What they are judged by.
        models: As of ``evaluate``.
        shared_tasks: What to do with tasks that both sides have: ``refuse`` them, ``drop`` them from what is
            learned, or ``keep`` them there, without what is judged itself.
        few_shot: As of ``evaluate``.
        tasks: As of ``evaluate``.
        on_fold: As of ``evaluate``.

    Raises:
        CostModelError: A task is on both sides and ``shared_tasks`` is ``refuse``, or nothing is left to
            learn from.
    """
    joined, fold = put_apart(train, test, shared_tasks)
    held_out = _HeldOut.of(joined, (fold,), tasks)
    return held_out.judge(models, "another dataset", "workload", few_shot, on_fold)


@dataclass(frozen=True)
class _Task:
    """A task that a fold tests: what it is, positions of its rows in the fold's test side, latencies."""

    facts: dict[str, Any]
    at: NDArray[np.intp]
    latency_s: FloatArray


@dataclass
class _Results:
    """Rows of a report's tables, as they come."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    shots: list[dict[str, Any]] = field(default_factory=list)

    def add(self, learner: str, run: int, task: _Task, result: dict[str, Any]) -> None:
        self.tasks.append({"learner": learner, "run": run, **task.facts, **result})

    def add_shots(self, learner: str, run: int, task: _Task, results: Iterator[dict[str, Any]]) -> None:
        self.shots += ({"learner": learner, "run": run, **task.facts, **result} for result in results)


@dataclass(frozen=True)
class _HeldOut:
    """What is learned from and judged by.

    Attributes:
        dataset: Both sides.
        data: Features and latencies.
        rows: ``Dataset.rows`` with ``NOVELTY`` and ``whole_device``.
        folds: Folds of it.
    """

    dataset: Dataset
    data: LearningRows
    rows: pd.DataFrame
    folds: tuple[Fold, ...]

    @classmethod
    def of(cls, dataset: Dataset, folds: tuple[Fold, ...], tasks: int | None) -> "_HeldOut":
        rows = dataset.rows.assign(whole_device=on_whole_device(dataset.rows))
        rows = pd.concat([rows, novelty(dataset, folds)], axis=1)
        if tasks is not None:
            folds = sample_tasks(rows, folds, tasks)
        return cls(dataset, LearningRows.of(dataset), rows, folds)

    def judge(
        self,
        models: Mapping[str, Runs],
        name: str,
        cluster: str,
        few_shot: FewShot | None,
        on_fold: Callable[[str, str], None] | None,
    ) -> Report:
        results, seconds = _Results(), dict.fromkeys(models, 0.0)
        draws = draw_rows(self.dataset, few_shot.seed) if few_shot else np.zeros(len(self.rows))
        whole_s = whole_device_latency(self.rows)
        for fold in self.folds:
            tasks = list(_tasks(self.rows.iloc[fold.test]))
            _judge_references(results, tasks, whole_s[fold.test], few_shot)
            for learner, run, make in _each_run(models):
                if on_fold:
                    on_fold(fold.held_out, learner)
                start = time.perf_counter()
                model = self.data.fit(make(self.data.table.columns), fold.train)
                prediction = model.predict(self.data.table.values[fold.test])
                seconds[learner] += time.perf_counter() - start
                for task in tasks:
                    X, own = self.data.table.values[fold.test[task.at]], draws[fold.test[task.at]]
                    first = shortlist(model, X, max(KS)) if isinstance(model, Posterior) else None
                    found = judge(prediction_at(prediction, task.at), task.latency_s, first)
                    results.add(learner, run, task, found)
                    if few_shot:
                        turns = measure_in_turn(
                            model, model.adapt, X, task.latency_s, plan=few_shot, draws=own
                        )
                        results.add_shots(learner, run, task, turns)
        return Report(
            _table(results.tasks, [RANDOM, WHOLE_DEVICE, *models]),
            name,
            seconds,
            cluster=cluster,
            shots=_table(results.shots, [RANDOM, WHOLE_DEVICE, *models]),
            few_shot=few_shot,
        )


def judge_tasks(name: str, prediction: Prediction, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Results of a learner's predictions for these rows, task by task, as in ``Report.tasks``."""
    for task in _tasks(rows):
        yield {"learner": name, **task.facts, **judge(prediction_at(prediction, task.at), task.latency_s)}


def _each_run(models: Mapping[str, Runs]) -> Iterator[tuple[str, int, ModelFactory]]:
    for name, runs in models.items():
        for run, make in enumerate(runs if isinstance(runs, Sequence) else (runs,)):
            yield name, run, make


def _judge_references(
    results: _Results, tasks: Sequence[_Task], whole_s: FloatArray, few_shot: FewShot | None
) -> None:
    """Results of both references; the whole device's choice may know measurements that no learner has."""
    has_parts = not all(task.facts["whole_device"] for task in tasks)
    for task in tasks:
        results.add(RANDOM, 0, task, judge_random(task.latency_s))
        known = has_parts and np.isfinite(whole_s[task.at]).any()
        by_whole = Fixed(Prediction(-whole_s[task.at]))
        if known:
            results.add(WHOLE_DEVICE, 0, task, judge(by_whole.prediction, task.latency_s))
        if few_shot:
            results.add_shots(RANDOM, 0, task, measure_at_random(task.latency_s, few_shot))
        if few_shot and known:
            blank, at = np.zeros((task.at.size, 0)), np.zeros(task.at.size)
            turns = measure_in_turn(by_whole, by_whole.adapt, blank, task.latency_s, plan=few_shot, draws=at)
            results.add_shots(WHOLE_DEVICE, 0, task, turns)


def _tasks(rows: pd.DataFrame) -> Iterator[_Task]:
    """Each task of these rows of which a config ran."""
    latencies = rows["latency_s"].to_numpy(dtype=np.float64)
    columns = {name: rows[name].to_numpy() for name in _FACTS if name in rows}
    for task, indices in rows.groupby("task", sort=False).indices.items():
        at = np.asarray(indices, dtype=np.intp)
        if np.isfinite(latencies[at]).any():
            facts = {name: values[at[0]] for name, values in columns.items()}
            yield _Task({"task": task, "configs": len(at), **facts}, at, latencies[at])


def _table(results: list[dict[str, Any]], learners: Sequence[str]) -> pd.DataFrame:
    """One row a result, learner by learner in this order."""
    table = pd.DataFrame(results)
    if table.empty:
        return table
    place = {name: i for i, name in enumerate(learners)}
    return table.iloc[np.argsort(table["learner"].map(place), kind="stable")].reset_index(drop=True)
