"""Errors of log latency: one process a task, coregionalised ones, and learners, from the same rows."""

from collections.abc import Iterator, Sequence

import numpy as np
from families import Family
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.benchmark.entries._coregionalisation import Processes, Settings
from costmodel.learners._scaler import Scaler
from costmodel.transfer import make_model

ONE, COREGIONALISED = "one process a task", "coregionalised"
LEARNERS = ("kernel-ridge", "stack", "known-elsewhere")
ADAPTED = ("kernel-ridge", "consensus", "source-mixture", "ridge-on-sources")


class Sample:
    """What is measured of a family.

    Args:
        family: The family.
        sizes: Rows of each task.
        seed: Seed of the draw; no task draws what another does.
    """

    def __init__(self, family: Family, sizes: Sequence[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.family = family
        self.drawn = [rng.permutation(len(y))[:size] for y, size in zip(family.y, sizes, strict=True)]
        self.rest = [np.setdiff1d(np.arange(len(y)), i) for y, i in zip(family.y, self.drawn, strict=True)]
        self.own = np.setdiff1d(np.arange(len(family.columns)), family.task_columns)
        self.scaler = Scaler().fit(np.vstack(family.X)[:, self.own])

    def rows(self, tasks: Sequence[int]) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        """Features, latencies and tasks of what is measured of these tasks."""
        X = np.vstack([self.family.X[t][self.drawn[t]] for t in tasks])
        y = np.concatenate([self.family.y[t][self.drawn[t]] for t in tasks])
        return X, y, np.repeat(tasks, [len(self.drawn[t]) for t in tasks])

    def inputs(self, X: FloatArray) -> FloatArray:
        """Standardised columns that do not describe the task."""
        return self.scaler.transform(X[:, self.own])

    def error(self, task: int, log_latency: FloatArray) -> float:
        """Mean absolute error of log latency on what is not measured of a task."""
        return float(np.abs(log_latency - np.log(self.family.y[task][self.rest[task]])).mean())


def equal(family: Family, size: int, seed: int, settings: Settings) -> dict[str, float]:
    """Error of each method where each task has so many rows, mean over the tasks."""
    tasks = range(len(family.y))
    return errors(Sample(family, [size for _ in tasks], seed), tasks, settings)


def unequal(family: Family, own: int, others: int, seed: int, settings: Settings) -> dict[str, float]:
    """Error of each method on a task with few rows where the others have many, mean over two such tasks."""
    found = []
    for target in targets(family):
        sizes = [own if task == target else others for task in range(len(family.y))]
        sample = Sample(family, sizes, seed)
        found.append({**errors(sample, [target], settings), **dict(adapted(sample, target))})
    return {method: float(np.mean([each[method] for each in found])) for method in found[0]}


def targets(family: Family) -> tuple[int, int]:
    """The tasks that are looked at as the new one."""
    return 1, len(family.y) - 1


def errors(sample: Sample, judged: Sequence[int], settings: Settings) -> dict[str, float]:
    """Error of processes, and of learners to which each task is one, mean over the judged tasks."""
    family = sample.family
    X, y, tasks = sample.rows(range(len(family.y)))
    Z, values = sample.inputs(X), np.log(y)
    rest = {t: family.X[t][sample.rest[t]] for t in judged}
    joint = Processes(Z, values, tasks, settings)
    said = {COREGIONALISED: {t: joint.mean(sample.inputs(rest[t]), t) for t in judged}, ONE: {}}
    for t in judged:
        own = tasks == t
        alone = Processes(Z[own], values[own], np.zeros(own.sum(), dtype=np.intp), settings)
        said[ONE][t] = alone.mean(sample.inputs(rest[t]), 0)
    for name in learners(family):
        model = make_model(name, family.columns).fit(X, y, tasks)
        said[name] = {t: np.log(model.predict(rest[t]).latency_s) for t in judged}
    return {
        method: float(np.mean([sample.error(t, found) for t, found in each.items()]))
        for method, each in said.items()
    }


def learners(family: Family) -> Sequence[str]:
    """Those that the family has the columns for, none where tasks are unrelated on purpose."""
    if family.kind == "unrelated":
        return ()
    return LEARNERS if family.kind == "recorded" else LEARNERS[:2]


def adapted(sample: Sample, target: int) -> Iterator[tuple[str, float]]:
    """Error of transfer models that learned the other tasks and are adapted to the target's few rows."""
    if sample.family.kind == "unrelated":
        return
    sources = [t for t in range(len(sample.family.y)) if t != target]
    X, y, _ = sample.rows([target])
    for name in ADAPTED:
        model = make_model(name, sample.family.columns).fit(*sample.rows(sources)).adapt(X, y)
        latency_s = model.predict(sample.family.X[target][sample.rest[target]]).latency_s
        yield f"{name}, adapted", sample.error(target, np.log(latency_s))
