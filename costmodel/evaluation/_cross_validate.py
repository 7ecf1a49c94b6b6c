"""Train on one side of each fold, choose on the other, and evaluate the choices task by task."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.dataset.splits._folds import Fold, draw_rows, select_whole_device
from costmodel.dataset.splits._make import Split, SplitRecipe, drop_final_report, make_split
from costmodel.dataset.table._dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.evaluation._judge import (
    KS,
    RANDOM,
    WHOLE_DEVICE,
    FewShot,
    Fixed,
    TestedTask,
    judge,
    judge_random,
    measure_at_random,
    measure_in_turn,
    prediction_at,
    tested_tasks,
    whole_device_latency,
)
from costmodel.evaluation._report import EvaluationReport
from costmodel.evaluation._sides import SharedTasks, leave_out_lone_configs, novelty, put_apart, sample_tasks
from costmodel.features._extract import COLUMNS
from costmodel.learners._base import Learner, Prediction
from costmodel.report._progress import Progress
from costmodel.transfer._base import TransferModel
from costmodel.transfer._plan import Posterior, shortlist
from costmodel.transfer._rows import LearningRows

ModelFactory = Callable[[Sequence[Column]], TransferModel]
# One factory, or one for each run of a learner that draws at random.
Runs: TypeAlias = ModelFactory | Sequence[ModelFactory]


def cross_validate(
    dataset: Dataset,
    models: Mapping[str, Runs],
    *,
    split: str | Split = "leave-one-workload-out",
    few_shot: FewShot | None = None,
    tasks: int | None = None,
) -> EvaluationReport:
    """Evaluate models on the held-out tasks of each fold, next to the two references; shows progress.

    The whole-device choice is a reference only if some tasks are on a part of a device and their configs were
    measured on the whole device. Tasks on which no config ran are left out, and those of one config, among
    which there is nothing to choose; a remark of the report says how many.

    Args:
        dataset: Measurements to split.
        models: For each name, a function that makes an unfitted model for a feature table's columns; or
            several, such as one per seed, each for one run of that learner.
        split: A split of the dataset, or the name of a strategy, with its default parameters.
        few_shot: How the tested tasks are also measured; None to evaluate zero-shot only.
        tasks: Number of tasks to evaluate (see ``sample_tasks``). Default: all.

    Raises:
        CostModelError: The split is unknown, the dataset has nothing to hold out, or a model has the name of
            a reference.
    """
    if isinstance(split, str):
        split = make_split(dataset, SplitRecipe(split))
    # A task is as new as what was held out of it.
    cluster = "device" if split.recipe.column in ("device", "architecture") else "workload"
    return _HeldOut.of(dataset, split.folds, tasks, few_shot).judge(models, split.name, cluster)


def evaluate_across(  # noqa: PLR0913 (settings, all with defaults)
    train: Sequence[Dataset],
    test: Dataset,
    models: Mapping[str, Runs],
    *,
    shared_tasks: SharedTasks = "refuse",
    few_shot: FewShot | None = None,
    tasks: int | None = None,
    with_final_report: bool = False,
) -> EvaluationReport:
    """Train models on whole datasets and evaluate them on another; see ``cross_validate``.

    Measurements that a dataset reserves for its final report are on neither side, and a remark of the report
    says how many, unless ``with_final_report`` is set.

    Args:
        train: Datasets to learn from.
        test: Dataset to evaluate on.
        models: As in ``cross_validate``.
        shared_tasks: What to do with tasks that both sides have: ``refuse`` to run, ``drop`` them from the
            training data, or ``keep`` them there, without the measurements that are evaluated.
        few_shot: As in ``cross_validate``.
        tasks: As in ``cross_validate``.
        with_final_report: Whether both sides also use what a dataset reserves for its final report.

    Raises:
        CostModelError: A task is on both sides and ``shared_tasks`` is ``refuse``, nothing is left to learn
            from, or a model has the name of a reference.
    """
    used, remarks = [], []
    for dataset in [*train, test]:
        used.append(dataset if with_final_report else drop_final_report(dataset))
        if left_out := len(dataset.measurements) - len(used[-1].measurements):
            remarks.append(
                f"Not used of {dataset.name}, as reserved for its final report: {left_out:,} of "
                f"{len(dataset.measurements):,} measurements, of {_fewer(dataset, used[-1])} workloads "
                "(--with-final-report uses them)."
            )
    joined, fold = put_apart(used[:-1], used[-1], shared_tasks)
    report = _HeldOut.of(joined, (fold,), tasks, few_shot).judge(models, "another dataset", "workload")
    return replace(report, remarks=(*remarks, *report.remarks))


@dataclass
class Results:
    """Rows of a report's tables, as they come."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    shots: list[dict[str, Any]] = field(default_factory=list)

    def add(self, learner: str, run: int, task: TestedTask, result: dict[str, Any]) -> None:
        """Add what was found of a task without measurements."""
        self.tasks.append({"learner": learner, "run": run, **task.facts, **result})

    def add_shots(self, learner: str, run: int, task: TestedTask, results: Iterable[dict[str, Any]]) -> None:
        """Add what was found of a task after each number of measurements."""
        self.shots += ({"learner": learner, "run": run, **task.facts, **result} for result in results)

    def add_references(
        self, tasks: Sequence[TestedTask], whole_s: FloatArray, few_shot: FewShot | None, draws: FloatArray
    ) -> None:
        """Add both references; the whole device's choice may know measurements that no learner has.

        Args:
            tasks: Those of a fold.
            whole_s: ``(n,)`` latency of each tested row's candidate on the whole device; inf if not measured.
            few_shot: How tasks are measured; None if they are not.
            draws: ``(n,)`` numbers by which the tested rows are drawn, see ``measure_in_turn``.
        """
        has_parts = not all(task.facts["whole_device"] for task in tasks)
        for task in tasks:
            self._add_random(task, few_shot)
            if has_parts and np.isfinite(whole_s[task.at]).any():
                by_whole = Fixed(Prediction(-whole_s[task.at]))
                self._add_whole_device(task, by_whole, few_shot, draws[task.at])

    def _add_random(self, task: TestedTask, few_shot: FewShot | None) -> None:
        self.add(RANDOM, 0, task, judge_random(task.latency_s))
        if few_shot:
            self.add_shots(RANDOM, 0, task, measure_at_random(task.latency_s, few_shot))

    def _add_whole_device(
        self, task: TestedTask, by_whole: Fixed, few_shot: FewShot | None, draws: FloatArray
    ) -> None:
        self.add(WHOLE_DEVICE, 0, task, judge(by_whole.prediction, task.latency_s))
        if few_shot:
            blank = np.zeros((task.at.size, 0))
            turns = measure_in_turn(
                by_whole, by_whole.adapt, blank, task.latency_s, plan=few_shot, draws=draws
            )
            self.add_shots(WHOLE_DEVICE, 0, task, turns)


def _fewer(dataset: Dataset, used: Dataset) -> int:
    """Count the workloads of a dataset that are not used."""
    return len(set(dataset.workloads) - set(used.workloads))


@dataclass(frozen=True)
class _HeldOut:
    """Rows that are learned from and judged by.

    Attributes:
        dataset: Both sides.
        data: Features and latencies.
        rows: ``Dataset.rows`` with ``NOVELTY`` and ``whole_device``.
        folds: Folds of it.
        few_shot: How tested tasks are measured; None if they are not.
        lone: How many tasks are left out because they have one config.
    """

    dataset: Dataset
    data: LearningRows
    rows: pd.DataFrame
    folds: tuple[Fold, ...]
    few_shot: FewShot | None
    lone: int

    @classmethod
    def of(
        cls, dataset: Dataset, folds: tuple[Fold, ...], tasks: int | None, few_shot: FewShot | None
    ) -> "_HeldOut":
        rows = dataset.rows.assign(whole_device=select_whole_device(dataset.rows))
        rows = pd.concat([rows, novelty(dataset, folds)], axis=1)
        folds, lone = leave_out_lone_configs(rows, folds)
        if tasks is not None:
            folds = sample_tasks(rows, folds, tasks)
        return cls(dataset, LearningRows.of(dataset), rows, folds, few_shot, lone)

    @cached_property
    def draws(self) -> FloatArray:
        """``(n,)`` numbers in [0, 1) by which rows are drawn at random, or measured among equal scores.

        The latter follow from the ids of the candidates, which are hashes: no order of rows enters.
        """
        if self.few_shot is None:
            return np.zeros(len(self.rows))
        if self.few_shot.first == "random":
            return draw_rows(self.dataset, self.few_shot.seed)
        ids, place = np.unique(self.dataset.columns.ids, return_inverse=True)
        return np.asarray(place[self.rows["candidate"]] / len(ids))

    def judge(self, models: Mapping[str, Runs], split: str, cluster: str) -> EvaluationReport:
        """Fit and judge every run of every model on every fold.

        Raises:
            CostModelError: A model is named as a reference is.
        """
        if taken := {RANDOM, WHOLE_DEVICE} & set(models):
            raise CostModelError(
                f"A learner must not have the name of a reference, but got {taken.pop()!r}, which every "
                "report includes. Leave it out or rename it."
            )
        results, seconds = Results(), dict.fromkeys(models, 0.0)
        whole_s = whole_device_latency(self.rows)
        runs = list(_each_run(models))
        tasks = [list(tested_tasks(self.rows.iloc[fold.test])) for fold in self.folds]
        with Progress("evaluating", total=len(runs) * sum(map(len, tasks))) as progress:
            for fold, tested in zip(self.folds, tasks, strict=True):
                results.add_references(tested, whole_s[fold.test], self.few_shot, self.draws[fold.test])
                judging = _Judging(self, fold, tested, results, progress)
                for learner, run, make in runs:
                    seconds[learner] += judging.judge(learner, run, make)
        names = [RANDOM, WHOLE_DEVICE, *models]
        return EvaluationReport(
            table_of(results.tasks, names),
            split,
            seconds,
            cluster=cluster,
            shots=table_of(results.shots, names),
            few_shot=self.few_shot,
            remarks=tuple(self._remarks()),
        )

    def _remarks(self) -> Iterator[str]:
        if self.lone:
            yield f"Left out of all scores: {self.lone:,} tasks of one config, where there is no choice."


@dataclass(frozen=True)
class _Judging:
    """One fold, at which learners are judged one after the other."""

    held_out: _HeldOut
    fold: Fold
    tasks: Sequence[TestedTask]
    results: Results
    progress: Progress

    def judge(self, learner: str, run: int, make: ModelFactory) -> float:
        """Fit a model and add its results; the seconds that it took to learn and predict."""
        data, fold, step = self.held_out.data, self.fold, f"{learner} without {self.fold.held_out[:40]}"
        self.progress.show(step)
        start = time.perf_counter()
        model = data.fit(make(data.features.columns), fold.train)
        prediction = data.predict(model, fold.test)
        seconds = time.perf_counter() - start
        for task in self.tasks:
            first = shortlist(model, self._features(task), max(KS)) if isinstance(model, Posterior) else None
            found = judge(prediction_at(prediction, task.at), task.latency_s, first)
            self.results.add(learner, run, task, found)
            self.results.add_shots(learner, run, task, self._measured(task, model))
            self.progress.advance(step)
        return seconds

    def _measured(self, task: TestedTask, model: TransferModel) -> Iterator[dict[str, Any]]:
        """Results after each number of measurements of a task; none if tasks are not measured."""
        plan = self.held_out.few_shot
        if plan:
            X, draws = self._features(task), self.held_out.draws[self.fold.test[task.at]]
            yield from measure_in_turn(model, model.adapt, X, task.latency_s, plan=plan, draws=draws)

    def _features(self, task: TestedTask) -> FloatArray:
        """``(n, d)`` features of a task's rows."""
        return self.held_out.data.features[self.fold.test[task.at]]


def _each_run(models: Mapping[str, Runs]) -> Iterator[tuple[str, int, ModelFactory]]:
    for name, runs in models.items():
        for run, make in enumerate(runs if isinstance(runs, Sequence) else (runs,)):
            yield name, run, make


Make = Callable[[Sequence[Column], int], TransferModel]


def seeded_runs(make: Make, seeds: Sequence[int]) -> list[Callable[[Sequence[Column]], TransferModel]]:
    """A factory for each seed, or for the first alone where the seed changes nothing.

    It changes something where it is among the settings of the model or of a learner in it.

    Args:
        make: Makes an unfitted model for a table's columns and a seed.
        seeds: At least one.
    """
    depends = _settings(make(COLUMNS, 0)) != _settings(make(COLUMNS, 1))
    return [partial(_make, make, seed) for seed in (seeds if depends else seeds[:1])]


def _make(make: Make, seed: int, columns: Sequence[Column]) -> TransferModel:
    return make(columns, seed)


def _settings(value: Any) -> Any:
    """Return what a model was made with, models in it opened."""
    if isinstance(value, TransferModel | Learner):
        return type(value), {name: _settings(setting) for name, setting in vars(value).items()}
    if isinstance(value, list | tuple):
        return [_settings(item) for item in value]
    return value


def table_of(results: list[dict[str, Any]], learners: Sequence[str]) -> pd.DataFrame:
    """One row a result, learner by learner in this order."""
    table = pd.DataFrame(results)
    if table.empty:
        return table
    place = {name: i for i, name in enumerate(learners)}
    return table.iloc[np.argsort(table["learner"].map(place), kind="stable")].reset_index(drop=True)
