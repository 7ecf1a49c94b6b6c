"""How much faster than all that is measured another kernel of the same workload is expected to be.

Notations:
    m: kernels, b: SM budgets, d: features.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._extract import extract
from costmodel.features._table import FeatureTable
from costmodel.learners._base import Learner, Prediction
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.search._acquisition import expected_improvement
from costmodel.search._gaussian_process import GaussianProcess

# Sketches are the rules that MetaSchedule applied; those with Tensor Cores are sketches of their own. Their
# numbers are names.
SKETCH = "sketch"

# A decision, and the level of a tile, 0 for a number, or the value of a category.
Name = tuple[str, int | str]


@dataclass(frozen=True)
class DecisionColumns:
    """Columns that hold the decisions of configs.

    A tile has one for each level but the outermost, log2 of the product of its factors from there inwards:
    what a block computes of the loop, a virtual thread, and so on. A number has one, asinh of it. Each
    sketch, and each value of any other category, has one that is 1 where it was chosen, else 0. Of a decision
    that a config does not have, columns are NaN, those of categories 0.

    Attributes:
        names: What the columns hold.
    """

    names: tuple[Name, ...]

    @classmethod
    def of(cls, configs: Sequence[Config]) -> Self:
        """Columns for all decisions of these configs, sorted."""
        names = {name for config in configs for name, _ in _values(config)}
        return cls(tuple(sorted(names, key=str)))

    def values(self, configs: Sequence[Config]) -> FloatArray:
        """``(n, q)`` decisions of each config; those that no column is for are left out."""
        absent = [0.0 if isinstance(part, str) else math.nan for _, part in self.names]
        position = {name: i for i, name in enumerate(self.names)}
        values = np.tile(np.array(absent), (len(configs), 1))
        for row, config in zip(values, configs, strict=True):
            for name, value in _values(config):
                if name in position:
                    row[position[name]] = value
        return values


def _values(config: Config) -> Iterator[tuple[Name, float]]:
    """The columns that a config fills, and their values."""
    for decision, value in config.decisions.items():
        if isinstance(value, tuple):
            inner = np.cumsum(np.log2(value[::-1]))[-2::-1]
            yield from (((decision, level), float(size)) for level, size in enumerate(inner, start=1))
        elif isinstance(value, str) or decision == SKETCH:
            yield (decision, str(value)), 1.0
        else:
            yield (decision, 0), math.asinh(value)


@dataclass(frozen=True)
class KernelRows:
    """Kernels as a model sees them.

    Attributes:
        X: ``(m, b, d)`` features of each kernel at each budget.
        bound: ``(m, b)`` natural log of seconds that latency is predicted above.
    """

    X: FloatArray
    bound: FloatArray

    def __getitem__(self, kernels: Any) -> Self:
        """Some of the kernels, as NumPy indexes an array's first axis."""
        return type(self)(self.X[kernels], self.bound[kernels])

    @property
    def flat(self) -> FloatArray:
        """``(m * b, d)`` features."""
        return self.X.reshape(-1, self.X.shape[-1])


@dataclass(frozen=True)
class Description:
    """How kernels of one workload are described.

    Attributes:
        decisions: Columns of the decisions that were measured; beside the features, they tell kernels apart.
        prior: Predicts latency from features, as learned from other workloads; None for the analytic time.
    """

    decisions: DecisionColumns
    prior: Learner | None

    def of(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> tuple[FloatArray, FloatArray]:
        """``(n, d)`` columns of ``candidates[i]`` on ``platforms[i]``, and the ``(n,)`` bound of latency."""
        table = extract(candidates, platforms)
        X = np.hstack([table.values, self.decisions.values([c.config for c in candidates])])
        return X, _analytic(table) if self.prior is None else _log_latency(self.prior.predict(table.values))


@dataclass(frozen=True)
class ImprovementModel:
    """Expected improvement of kernels at several SM budgets, from measurements of one workload.

    The improvement is that of log latency over the fastest at a budget, so that budgets compare
    (``expected_improvement``), times the probability that the kernel works at all. One Gaussian process
    serves all budgets and predicts how far above its bound, the analytic time or what a prior predicts, the
    latency of a kernel is. A second one, where something failed, predicts failure: what failed has no latency
    to learn from.

    Attributes:
        description: What the processes know of a kernel.
        platforms: Platforms of the budgets.
        best: ``(b,)`` log latency of the fastest.
        latency: Predicts log latency above the bound.
        failure: Predicts 1 for failure and 0 for success; None where nothing failed.
    """

    description: Description
    platforms: tuple[Platform, ...]
    best: FloatArray
    latency: GaussianProcess
    failure: GaussianProcess | None

    @classmethod
    def fit(cls, measured: Sequence[Measurement], prior: Learner | None = None) -> Self:
        """Learn from measurements of one workload, at least one of them ok at each budget."""
        candidates = [m.candidate for m in measured]
        description = Description(DecisionColumns.of([c.config for c in candidates]), prior)
        X, bound = description.of(candidates, [m.platform for m in measured])
        log_latency = np.log([m.latency_s for m in measured])
        ok = np.array([m.outcome is Outcome.OK for m in measured])
        platforms = {m.platform.platform_id: m.platform for m in measured}
        position = {platform: i for i, platform in enumerate(platforms)}
        best = np.full(len(platforms), np.inf)
        np.minimum.at(best, [position[m.platform.platform_id] for m in measured], log_latency)
        return cls(
            description=description,
            platforms=tuple(platforms.values()),
            best=best,
            latency=GaussianProcess.fit(X[ok], (log_latency - bound)[ok]),
            failure=None if ok.all() else GaussianProcess.fit(X, np.where(ok, 0.0, 1.0)),
        )

    def rows(self, candidates: Sequence[Candidate]) -> KernelRows:
        """``candidates`` as this model sees them."""
        shape = len(candidates), len(self.platforms)
        every = [candidate for candidate in candidates for _ in self.platforms]
        X, bound = self.description.of(every, self.platforms * len(candidates))
        return KernelRows(X.reshape(*shape, X.shape[1]), bound.reshape(shape))

    def improvement(self, rows: KernelRows) -> FloatArray:
        """``(m, b)`` expected improvement of log latency, times the probability of success; at least 0."""
        mean, std = self._predict(rows)
        return expected_improvement(self.best - mean, std) * self._success(rows)

    def std(self, rows: KernelRows) -> FloatArray:
        """``(m,)`` standard deviation of log latency, mean over the budgets."""
        return np.asarray(self._predict(rows)[1].mean(axis=1))

    def condition_on(self, rows: KernelRows) -> Self:
        """The model after these kernels were found to be as fast as predicted."""
        mean, _ = self._predict(rows)
        best = np.minimum(self.best, mean.min(axis=0))
        return replace(self, best=best, latency=self.latency.condition_on(rows.flat))

    def _predict(self, rows: KernelRows) -> tuple[FloatArray, FloatArray]:
        """``(m, b)`` mean and standard deviation of log latency."""
        mean, std = self.latency.predict(rows.flat)
        return rows.bound + mean.reshape(rows.bound.shape), std.reshape(rows.bound.shape)

    def _success(self, rows: KernelRows) -> FloatArray:
        """``(m, b)`` probability that a kernel works."""
        if self.failure is None:
            return np.ones_like(rows.bound)
        failure, _ = self.failure.predict(rows.flat)
        return np.asarray(1.0 - np.clip(failure, 0.0, 1.0)).reshape(rows.bound.shape)


def _analytic(table: FeatureTable) -> FloatArray:
    """Natural log of the analytic time in seconds."""
    roofline, analytic = (
        table.values[:, table.index(name)] for name in ("log2_roofline_s", "log2_analytic_over_roofline")
    )
    # A kernel that was never lowered has no analytic time: its roofline is the next best bound.
    return np.asarray(np.log(2.0) * (roofline + np.nan_to_num(analytic)))


def _log_latency(prediction: Prediction) -> FloatArray:
    """Natural log of the predicted seconds."""
    if prediction.latency_s is None:
        raise ValueError("prior must predict latencies, but got one that gives scores only")
    return np.log(prediction.latency_s)
