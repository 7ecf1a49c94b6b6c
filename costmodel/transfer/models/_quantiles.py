"""Quantiles of residuals: by bucket, and by number of measurements from rehearsed adaptations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer.models._familiarity import Codes


class MondrianQuantiles:
    """Lower and upper quantiles of scores, for each bucket its own.

    Source: Vovk, Lindsay, Nouretdinov and Gammerman, "Mondrian confidence machine", 2003.

    A bucket's quantiles are a mean of its own, weighted by the groups that it has, and those of all rows,
    weighted by ``shrinkage``: rows of one group resemble each other, so that rows would count too much. A
    bucket that was never seen takes the quantiles of the nearest one, over standardised columns.

    Args:
        columns: Positions of the columns that tell buckets apart; with none, all rows are one bucket.
        level: Share of the scores between the two quantiles, half of the rest on each side.
        shrinkage: Groups that the pooled quantiles count as.
    """

    def __init__(self, columns: tuple[int, ...], *, level: float = 0.9, shrinkage: float = 10.0) -> None:
        self.columns = columns
        self.level = level
        self.shrinkage = shrinkage

    def fit(self, X: FloatArray, scores: FloatArray, groups: Codes) -> Self:
        """Learn from ``(n,)`` scores of rows X, and the number of each row's group."""
        described = self._describe(X)
        self.buckets_, bucket = np.unique(described, axis=0, return_inverse=True)
        self.scaler_ = Scaler().fit(self.buckets_)
        pooled = two_sided(scores, self.level)
        quantiles = []
        for code in range(len(self.buckets_)):
            at = bucket.ravel() == code
            count = len(np.unique(groups[at]))
            own = two_sided(scores[at], self.level)
            quantiles.append((count * own + self.shrinkage * pooled) / (count + self.shrinkage))
        self.quantiles_ = np.array(quantiles)
        return self

    def quantiles(self, X: FloatArray) -> FloatArray:
        """``(n, 2)`` lower and upper quantile for each row's bucket."""
        rows = self.scaler_.transform(self._describe(X))
        known = self.scaler_.transform(self.buckets_)
        squared = np.square(rows[:, None, :] - known[None, :, :]).sum(axis=2)
        return np.asarray(self.quantiles_[squared.argmin(axis=1)])

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"buckets": self.buckets_, "quantiles": self.quantiles_, "scaler": self.scaler_.state()}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.buckets_ = stored.floats("buckets", "b", len(self.columns))
        self.quantiles_ = stored.floats("quantiles", "b", 2)
        self.scaler_ = Scaler().load_state(stored.part("scaler"))
        return self

    def _describe(self, X: FloatArray) -> FloatArray:
        """``(n, b)`` bucket columns; what is unknown is 0."""
        return np.asarray(np.nan_to_num(X[:, list(self.columns)]))


def two_sided(scores: FloatArray, level: float) -> FloatArray:
    """Lower and upper quantile of n scores, at rank ``ceil((n + 1) q)``: Lei et al. (2018), algorithm 2."""
    ordered = np.sort(scores)
    rank = int(np.ceil((len(ordered) + 1) * (1.0 + level) / 2))
    high = min(len(ordered), rank) - 1
    return np.array([ordered[len(ordered) - 1 - high], ordered[high]])


@runtime_checkable
class KnowsStd(Protocol):
    """A predictor that tells how sure it is of each candidate."""

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a measurement's log latency."""
        ...


@dataclass(frozen=True)
class Rehearsed:
    """Scores of one rehearsal.

    Attributes:
        shots: Measurements that the model was adapted to.
        scores: ``(n,)`` log(measured / predicted) of the others in the task that ran, in stds.
    """

    shots: int
    scores: FloatArray


SHOTS = (1, 2, 4, 8, 16, 32, 64)


def rehearse(model: TransferModel, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Iterator[Rehearsed]:
    """Adapt a model to each of these tasks, with each number of measurements up to two thirds of its configs.

    What is measured is what a search would measure: the best scores, after each number of measurements those
    of the model as it is then adapted. Intervals are to hold for what a search leaves unmeasured, and of
    configs drawn at random a model learns more.
    """
    for task in np.unique(task_ids):
        at = task_ids == task
        yield from _rehearse_one(model, X[at], y[at])


def _rehearse_one(model: TransferModel, X: FloatArray, y: FloatArray) -> Iterator[Rehearsed]:
    """Rehearsals on one task."""
    measured = np.zeros(len(y), dtype=bool)
    predictor: Predictor = model
    for shots in (shots for shots in SHOTS if 3 * shots <= 2 * len(y)):
        score = np.where(measured, -np.inf, predictor.predict(X).score)
        measured[np.argsort(-score, kind="stable")[: shots - int(measured.sum())]] = True
        rest = ~measured & np.isfinite(y)
        predictor = model.adapt(X[measured], y[measured])
        predicted = predictor.predict(X[rest]).latency_s
        if predicted is not None and rest.any():
            yield Rehearsed(shots, np.log(y[rest] / predicted) / std_of(predictor, X[rest]))


def std_of(predictor: Predictor, X: FloatArray) -> FloatArray:
    """``(n,)`` std of a predictor, 1 where it tells none."""
    return predictor.std(X) if isinstance(predictor, KnowsStd) else np.ones(len(X))


class ShotQuantiles:
    """Quantiles of few-shot scores as a function of the number of measurements.

    Between the numbers that were rehearsed they are linear in its logarithm, beyond them constant.

    Args:
        level: Share of the scores between the two quantiles.
    """

    def __init__(self, *, level: float = 0.9) -> None:
        self.level = level

    def fit(self, rehearsed: list[Rehearsed]) -> Self:
        """Learn from rehearsals; each counts the same, however many candidates its task has.

        The scores of a task lie together, so that it is tasks that are drawn: of n of them the quantile q is
        taken at ``(n + 1) q / n``, as Lei et al. (JASA 113, 2018) do for n scores.
        """
        self.shots_ = np.array(sorted({item.shots for item in rehearsed}), dtype=np.float64)
        quantiles = []
        for shots in self.shots_:
            scores = [item.scores for item in rehearsed if item.shots == shots]
            weights = np.concatenate([np.full(len(each), 1.0 / len(each)) for each in scores])
            upper = min(1.0, (1.0 + self.level) / 2 * (1.0 + 1.0 / len(scores)))
            tails = [1.0 - upper, upper]
            quantiles.append(_weighted_quantiles(np.concatenate(scores), weights, tails))
        self.quantiles_ = np.array(quantiles).reshape(-1, 2)
        return self

    def at(self, shots: int) -> FloatArray | None:
        """Lower and upper quantile after so many measurements; None where nothing was rehearsed."""
        if not self.shots_.size:
            return None
        position = np.log(self.shots_)
        return np.array([np.interp(np.log(shots), position, side) for side in self.quantiles_.T])

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"shots": self.shots_, "quantiles": self.quantiles_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.shots_, self.quantiles_ = stored.floats("shots", "s"), stored.floats("quantiles", "s", 2)
        if not (self.shots_ > 0).all():
            raise ValueError("in the learned state, numbers of measurements must be above 0")
        return self


def _weighted_quantiles(values: FloatArray, weights: FloatArray, quantiles: list[float]) -> FloatArray:
    """The least value below which at least that share of the weight lies."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(cumulated, np.array(quantiles) - 1e-12)
    return np.asarray(values[order][np.minimum(at, len(values) - 1)])
