"""How far a candidate is from everything that was learned from, and the groups by which that is judged."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._stored_state import StoredState

Codes = NDArray[np.intp]


def group_codes(X: FloatArray, columns: tuple[int, ...], task_ids: TaskIds) -> Codes:
    """``(n,)`` number of each row's group: rows with equal values in these columns, NaN equal to NaN.

    Where the columns tell no two groups apart (there are none, or one workload only), tasks are the groups.
    """
    described = np.nan_to_num(X[:, list(columns)], nan=np.inf)
    distinct, codes = np.unique(described, axis=0, return_inverse=True)
    if len(distinct) < 2:
        _, codes = np.unique(task_ids, return_inverse=True)
    return np.asarray(codes.ravel(), dtype=np.intp)


def twin_codes(X: FloatArray, columns: tuple[int, ...], task_ids: TaskIds) -> Codes:
    """``(n,)`` as ``group_codes``, with rows in one group that have the same values in other columns.

    Families that compute on the same data have columns of their own for its sizes, NaN in rows of the others:
    a sum of looked-up rows and its gradient, a layer in two types. Whoever has measured one knows the other.
    """
    described = X[:, list(columns)]
    known_first = np.argsort(np.isnan(described), axis=1, kind="stable")
    aligned = np.take_along_axis(described, known_first, axis=1)
    return group_codes(aligned, tuple(range(aligned.shape[1])), task_ids)


def group_folds(groups: Codes, folds: int, seed: int) -> Codes:
    """``(n,)`` fold of each row, in 0 ... folds - 1; whole groups are dealt out at random, evenly.

    Raises:
        ValueError: ``folds < 2``, or there are fewer than two groups.
    """
    distinct, codes = np.unique(groups, return_inverse=True)
    if folds < 2 or len(distinct) < 2:
        raise ValueError(f"folds and groups must be at least 2, but got {folds} and {len(distinct)}")
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % min(folds, len(distinct))
    return np.asarray(dealt[codes], dtype=np.intp)


_BLOCK = 256  # rows compared at once: 256 x 2,000 distances are 4 MB


class Familiarity:
    """Distance to the nearest known row, in units of what is usual between groups.

    The distance is the root mean square difference over columns in their standard deviations (a k-nearest
    neighbour detector with k = 1: Ramaswamy, Rastogi and Shim, SIGMOD 2000). A value that is missing on one
    side only counts as two deviations. A column that never varied counts in its own unit, so that the first
    other device is noticed. What is usual is the ``quantile`` of the distances from rows of one group to the
    rows of the others: a new workload like those known is familiar, one of another kind or size is not.

    Args:
        quantile: Share of the rows of left-out groups that are familiar.
        known: Rows to compare with; as many are drawn at random if there are more.
        seed: Seed of the draw.
    """

    def __init__(self, *, quantile: float = 0.99, known: int = 2000, seed: int = 0) -> None:
        self.quantile = quantile
        self.known = known
        self.seed = seed

    def fit(self, X: FloatArray, groups: Codes) -> Self:
        """Learn from ``(n, d)`` rows and the number of each row's group, at least two groups."""
        self.mean_ = np.where(np.isnan(X).all(axis=0), 0.0, np.nansum(X, axis=0))
        self.mean_ /= np.maximum(1, (~np.isnan(X)).sum(axis=0))
        deviation = np.sqrt(
            np.nansum(np.square(X - self.mean_), axis=0) / np.maximum(1, (~np.isnan(X)).sum(axis=0))
        )
        self.scale_ = np.where(deviation > 1e-9 * (1.0 + np.abs(self.mean_)), deviation, 1.0)
        drawn = np.random.default_rng(self.seed).permutation(len(X))[: self.known]
        self.known_, of = self._standardise(X[drawn]), groups[drawn]
        usual = np.concatenate(
            [_nearest(self.known_[of == group], self.known_[of != group]) for group in np.unique(of)]
        )
        self.usual_ = max(float(np.quantile(usual, self.quantile)), 1e-9)
        return self

    def unfamiliarity(self, X: FloatArray) -> FloatArray:
        """``(n,)`` distance / usual distance: 0 for a known row, above 1 for what is unlike all."""
        return _nearest(self._standardise(X), self.known_) / self.usual_

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"mean": self.mean_, "scale": self.scale_, "known": self.known_, "usual": self.usual_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.mean_, self.scale_ = stored.floats("mean", "d"), stored.floats("scale", "d")
        self.known_, self.usual_ = stored.floats("known", "k", 2 * self.mean_.size), stored.number("usual")
        if not ((self.scale_ > 0).all() and self.usual_ > 0):
            raise ValueError("in the learned state, scales must be above 0")
        return self

    def _standardise(self, X: FloatArray) -> FloatArray:
        """``(n, 2 d)`` standardised values, 0 where missing, and 2 where missing."""
        values = np.nan_to_num((X - self.mean_) / self.scale_)
        return np.hstack([values, 2.0 * np.isnan(X)])


def _nearest(rows: FloatArray, known: FloatArray) -> FloatArray:
    """``(n,)`` root mean square distance of each row to the nearest known one; 0 where none is known."""
    if not len(known):
        return np.zeros(len(rows))
    columns = known.shape[1] / 2
    squares = np.square(known).sum(axis=1)
    found = []
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        squared = np.square(block).sum(axis=1)[:, None] - 2.0 * block @ known.T + squares
        found.append(np.sqrt(np.maximum(squared.min(axis=1), 0.0) / columns))
    return np.concatenate(found) if found else np.zeros(0)
