"""Standardised features."""

from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray


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

    def fit(self, X: FloatArray) -> Self:
        """Learn means and deviations of ``(n, d)`` features, NaN where missing."""
        present = ~np.isnan(X)
        count = np.maximum(present.sum(axis=0), 1)
        self.mean_ = np.where(present, X, 0.0).sum(axis=0) / count
        centred = np.where(present, X - self.mean_, 0.0)
        deviation = np.sqrt(np.square(centred).sum(axis=0) / count)
        # A deviation below rounding is that of a constant.
        self.scale_ = np.where(deviation > 1e-9 * (1.0 + np.abs(self.mean_)), deviation, np.inf)
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """``(n, d)`` standardised features without NaN."""
        scaled = (X - self.mean_) / self.scale_
        return np.clip(np.where(np.isnan(scaled), 0.0, scaled), -self.limit, self.limit)

    @property
    def varying(self) -> int:
        """How many columns say something, at least 1."""
        return max(1, int(np.isfinite(self.scale_).sum()))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"mean": self.mean_, "scale": self.scale_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.mean_, self.scale_ = state["mean"], state["scale"]
        return self
