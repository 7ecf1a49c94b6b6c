"""Features before a learner sees them: standardised, and each distinct row once."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._stored_state import StoredState

_ROWS = 2**18  # that are copied at once


class Scaler:
    """Brings columns to mean 0 and standard deviation 1; a missing value becomes the mean, 0.

    Columns that were constant or missing throughout the fit become 0: what was never seen to vary says
    nothing. Results are clipped to +-``limit``, so that a value far outside of what was seen cannot rule a
    distance.

    Attributes:
        mean_: ``(d,)`` means of the values present.
        scale_: ``(d,)`` their standard deviations; inf for a column that says nothing.
    """

    limit = 6.0

    def fit(self, X: FloatArray, columns: NDArray[np.bool_] | None = None) -> Self:
        """Learn means and deviations of ``(n, d)`` features, NaN where missing; of some columns of these."""
        chosen = slice(None) if columns is None else columns
        starts = range(0, max(1, len(X)), _ROWS)

        def summed(values: Callable[[FloatArray], NDArray[Any]]) -> NDArray[Any]:
            blocks = (X[start : start + _ROWS][:, chosen] for start in starts)
            return np.asarray(sum(values(block).sum(axis=0) for block in blocks))

        count = np.maximum(summed(lambda block: ~np.isnan(block)), 1)
        self.mean_ = summed(_present) / count
        squares = summed(lambda block: np.square(_present(block - self.mean_)))
        deviation = np.sqrt(squares / count)
        # A deviation below rounding is that of a constant.
        self.scale_ = np.where(deviation > 1e-9 * (1.0 + np.abs(self.mean_)), deviation, np.inf)
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """``(n, d)`` standardised features without NaN."""
        scaled = (X - self.mean_) / self.scale_
        return np.clip(np.where(np.isnan(scaled), 0.0, scaled), -self.limit, self.limit)

    @property
    def varying(self) -> int:
        """Number of columns that say something, at least 1."""
        return max(1, int(np.isfinite(self.scale_).sum()))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"mean": self.mean_, "scale": self.scale_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.mean_, self.scale_ = stored.floats("mean", "d"), stored.floats("scale", "d", infinite=True)
        if not (self.scale_ > 0).all():
            raise ValueError("in the learned state, scales must be above 0")
        return self


def _present(X: FloatArray) -> FloatArray:
    """Values with 0 where they are missing."""
    return np.where(np.isnan(X), 0.0, X)


def distinct_rows(X: FloatArray | NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the first of each distinct row, ``(u,)``, and which of them each row equals, ``(n,)``.

    NaN equals NaN and -0.0 equals 0.0. The order of the distinct rows is fixed by their content, not by where
    they stand; it is none that means anything. Without columns all rows are one.
    """
    bits = _bits(X)
    # The fewer there are to compare, the sooner rows are in order.
    rows = np.ascontiguousarray(bits[:, (bits != bits[:1]).any(axis=0)])
    if not rows.shape[1]:
        return np.zeros(min(1, len(X)), dtype=np.intp), np.zeros(len(X), dtype=np.intp)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    return first, row


def row_keys(X: FloatArray) -> list[bytes]:
    """A key of each row, by which it is found again in other arrays; equal as of ``distinct_rows``."""
    return [row.tobytes() for row in _bits(X)]


def _bits(X: FloatArray | NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
    bits = np.ascontiguousarray(X + X.dtype.type(0))  # makes -0.0 and 0.0 the same bits
    bits[np.isnan(bits)] = np.nan  # of which there are many
    return bits.view(f"u{bits.itemsize}")
