"""Families of tasks: recorded ones, analytic ones whose relation is known, and unrelated ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kit.caches import find_kernels, name_kernel, read_kernel

from costmodel.arrays import FloatArray
from costmodel.columns import Column, positions
from costmodel.dataset import Dataset, load_dataset
from costmodel.features import extract

DATASETS = Path(__file__).parents[2] / "datasets"
DEVICE = "NVIDIA H100 80GB HBM3"
TASKS, CONFIGS = 6, 400  # at most
POINTS = 300  # configs of an analytic task
ANALYTIC_COLUMNS = (
    Column("task", "1", "workload"),
    Column("log2_bound_s", "log2(s)", "workload", frozenset({"lower_bound"})),
    Column("x1", "1", "config"),
    Column("x2", "1", "config"),
)


@dataclass(frozen=True)
class Family:
    """Tasks that share their columns.

    Attributes:
        name: Where they are from.
        kind: ``recorded``, ``analytic`` or ``unrelated``.
        columns: The d columns.
        X: ``(n, d)`` of each task.
        y: ``(n,)`` latencies of each task in seconds, all finite.
    """

    name: str
    kind: str
    columns: tuple[Column, ...]
    X: tuple[FloatArray, ...]
    y: tuple[FloatArray, ...]

    @property
    def task_columns(self) -> tuple[int, ...]:
        """Positions of the columns that describe the task."""
        return positions(self.columns, "workload", "platform")


def families(budgets: Sequence[str], sizes: Sequence[str], caches: Path | None) -> Iterator[Family]:
    """All families; those of caches only where there is a folder of them.

    Args:
        budgets: ``dataset/workload``, each on its SM budgets.
        sizes: ``dataset/kind@sms``, workloads of a kind on one SM budget.
        caches: Folder with <suite>/<kernel>/<device>.json.gz of Kernel Tuner.
    """
    names = dict.fromkeys(map(_dataset, [*budgets, *sizes]))
    loaded = {name: load_dataset(DATASETS / name) for name in names}
    recorded = [_budgets(loaded[_dataset(each)], each) for each in budgets]
    recorded += [_sizes(loaded[_dataset(each)], each) for each in sizes]
    recorded += [_devices(folder) for folder in (find_kernels(caches) if caches else [])]
    yield from recorded
    yield from (gptune_demo(), branin(), mixtures())
    yield independent()
    yield from (columns_shuffled(recorded[i]) for i in (0, len(budgets)))
    yield from (latencies_permuted(recorded[i]) for i in (0, len(budgets)))


def _dataset(each: str) -> str:
    return each.split("/", maxsplit=1)[0]


def _budgets(dataset: Dataset, each: str) -> Family:
    """A workload on the SM budgets of one device."""
    rows = _measured(dataset)
    rows = rows[rows["workload"] == each.split("/", 1)[1]]
    chosen = sorted(rows["sms_granted"].unique(), key=lambda sms: (sms not in (8, 16, 32, 64, 96, 132), sms))
    return _family(dataset, rows[rows["sms_granted"].isin(chosen[:TASKS])], f"{each}, SM budgets")


def _sizes(dataset: Dataset, each: str) -> Family:
    """Workloads of a kind on one SM budget, those with most configs first."""
    kind, sms = each.split("/", 1)[1].split("@")
    rows = _measured(dataset)
    rows = rows[(rows["kind"] == kind) & (rows["sms_granted"] == int(sms))]
    configs = rows.groupby("workload").size().sort_values(ascending=False, kind="stable")
    return _family(dataset, rows[rows["workload"].isin(configs.index[:TASKS])], f"{each} SMs, sizes")


def _devices(folder: Path) -> Family:
    """A kernel on several GPUs."""
    dataset = read_kernel(folder)
    rows = dataset.rows[np.isfinite(dataset.rows["latency_s"])]
    return _family(dataset, rows, f"{name_kernel(folder)}, GPUs")


def _measured(dataset: Dataset) -> pd.DataFrame:
    """Rows that ran on one device, on green contexts or all of it."""
    rows = dataset.rows
    plain = [i for i, each in enumerate(dataset.platforms) if each.isolation in ("green_context", "whole")]
    return rows[np.isfinite(rows["latency_s"]) & (rows["device"] == DEVICE) & rows["platform"].isin(plain)]


def _family(dataset: Dataset, rows: pd.DataFrame, name: str) -> Family:
    rng = np.random.default_rng(0)
    drawn = [
        of.iloc[np.sort(rng.permutation(len(of))[:CONFIGS])] for _, of in rows.groupby("task", sort=False)
    ]
    table = extract(
        [dataset.candidates[i] for of in drawn for i in of["candidate"]],
        [dataset.platforms[i] for of in drawn for i in of["platform"]],
    )
    ends = np.cumsum([len(of) for of in drawn])[:-1]
    latencies = tuple(of["latency_s"].to_numpy() for of in drawn)
    return Family(name, "recorded", table.columns, tuple(np.split(table.values, ends)), latencies)


def gptune_demo() -> Family:
    """The demonstration of GPTune (examples/GPTune-Demo/demo.py), t = 0, .5, ..., 2.5, as log latency.

    ``1 + exp(-(x + 1)^(t + 1)) cos(2 pi x) sum over i = 1 .. 3 of sin(2 pi x (t + 2)^i)``
    """

    def value(t: float, x: FloatArray) -> FloatArray:
        angle = 2.0 * np.pi * x[:, 0]
        waves = sum(np.sin(angle * (t + 2.0) ** i) for i in (1, 2, 3))
        return np.asarray(1.0 + np.exp(-((x[:, 0] + 1.0) ** (t + 1.0))) * np.cos(angle) * waves)

    tasks = [_at(value, t) for t in np.arange(TASKS) / 2.0]
    return _analytic("GPTune's demonstration", "analytic", tasks, dims=1)


def branin() -> Family:
    """Log of Branin's function, whose six parameters are drawn about the usual ones."""
    rng = np.random.default_rng(1)

    def value(p: FloatArray, x: FloatArray) -> FloatArray:
        u, v = 15.0 * x[:, 0] - 5.0, 15.0 * x[:, 1]
        a, b, c, r, s, t = p
        return np.asarray(np.log(1.0 + a * (v - b * u**2 + c * u - r) ** 2 + s * (1.0 - t) * np.cos(u) + s))

    low = np.array([0.5, 0.1, 1.0, 5.0, 8.0, 0.03])
    high = np.array([1.5, 0.15, 2.0, 7.0, 12.0, 0.05])
    tasks = [_at(value, rng.uniform(low, high)) for _ in range(TASKS)]
    return _analytic("Branin's functions", "analytic", tasks)


def mixtures() -> Family:
    """Mixtures of two draws of Gaussian processes: what coregionalisation assumes."""
    draws, weights = _draws(2), np.random.default_rng(2).normal(size=(TASKS, 2))
    return _analytic("mixtures of two draws", "analytic", [_at(_mixed(draws), each) for each in weights])


def independent() -> Family:
    """A draw of a Gaussian process for each task."""
    draws = _draws(TASKS)
    return _analytic("independent draws", "unrelated", [_at(_mixed(draws), each) for each in np.eye(TASKS)])


def columns_shuffled(family: Family) -> Family:
    """Each task with its own order of the columns that are not the task's: smooth, but about other things."""
    rng = np.random.default_rng(3)
    own = np.setdiff1d(np.arange(len(family.columns)), family.task_columns)
    known = np.vstack(family.X)[:, own]
    own = own[~np.isnan(known).any(axis=0) & (known.std(axis=0) > 1e-9)]
    scale = np.vstack(family.X)[:, own].std(axis=0)
    changed = []
    for X in family.X:
        order = rng.permutation(len(own))
        shuffled = X.copy()
        shuffled[:, own] = (X[:, own] / scale)[:, order] * scale
        changed.append(shuffled)
    return replace(family, name=f"{family.name}, columns shuffled", kind="unrelated", X=tuple(changed))


def latencies_permuted(family: Family, seed: int = 4) -> Family:
    """Each task with its latencies in another order: noise."""
    rng = np.random.default_rng(seed)
    y = tuple(rng.permutation(each) for each in family.y)
    return replace(family, name=f"{family.name}, latencies permuted", kind="unrelated", y=y)


LogLatency = Callable[[FloatArray], FloatArray]


def _at(value: Callable[[Any, FloatArray], FloatArray], parameters: Any) -> LogLatency:
    return lambda x: value(parameters, x)


def _draws(number: int) -> LogLatency:
    """Draws of Gaussian processes on the unit square, by random features (Rahimi and Recht, NIPS 2007)."""
    rng = np.random.default_rng(5)
    frequencies = rng.normal(size=(number, 2, 200)) / 0.25
    phases, weights = rng.uniform(0.0, 2.0 * np.pi, (number, 200)), rng.normal(size=(number, 200)) / 10.0
    return lambda x: np.array(
        [np.cos(x @ f + p) @ w for f, p, w in zip(frequencies, phases, weights, strict=True)]
    )


def _mixed(draws: LogLatency) -> Callable[[FloatArray, FloatArray], FloatArray]:
    return lambda weights, x: 0.5 * weights @ draws(x)


def _analytic(name: str, kind: str, tasks: Sequence[LogLatency], dims: int = 2) -> Family:
    x = np.random.default_rng(6).uniform(size=(POINTS, 2))
    x[:, dims:] = 0.0
    X = [np.column_stack([np.full(POINTS, t), np.zeros(POINTS), x]) for t in range(len(tasks))]
    y = [np.exp(of(x)) for of in tasks]
    return Family(name, kind, ANALYTIC_COLUMNS, tuple(X), tuple(y))
