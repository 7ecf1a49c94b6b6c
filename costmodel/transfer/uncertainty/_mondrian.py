"""Quantiles by bucket, drawn towards those of all buckets where a bucket has seen little."""

from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.transfer.uncertainty._folds import Codes


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
