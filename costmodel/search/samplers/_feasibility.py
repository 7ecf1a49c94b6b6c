"""How likely a config is to run and to keep the constraints that trials were told."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._scaler import Scaler
from costmodel.search._gaussian_process import GaussianProcess, spread_rows

_MOST_KNOWN = 200  # the work of a prediction grows with the square of their number


@dataclass(frozen=True)
class Feasibility:
    """Probability that no constraint is above 0, one Gaussian process each, taken as independent.

    Source: Gardner et al., "Bayesian optimization with inequality constraints", ICML 2014.

    Attributes:
        constraints: Predict by how much a config is beyond each constraint, on a scale of its own.
    """

    constraints: tuple[GaussianProcess, ...]

    @classmethod
    def of(cls, X: FloatArray, excess: FloatArray, scaler: Scaler) -> Self:
        """Learn from measured configs.

        Args:
            X: ``(m, d)`` features.
            excess: ``(m, c)`` by how much each was beyond each constraint: above 0 is too much, NaN unknown.
            scaler: Knows the scale of the features.
        """
        return cls(
            tuple(
                GaussianProcess.fit_relevance(X[rows], _tamed(values[rows]), scaler)
                for values, rows in zip(excess.T, map(_telling, excess.T), strict=True)
                if rows.size
            )
        )

    def log_probability(self, X: FloatArray) -> FloatArray:
        """``(n,)`` natural log of the probability that a config keeps all constraints."""
        from scipy.special import log_ndtr

        found = np.zeros(len(X))
        for constraint in self.constraints:
            mean, std = constraint.predict(X)
            found += log_ndtr(-mean / np.maximum(std, 1e-9))
        return found


def _telling(excess: FloatArray) -> Positions:
    """Rows to learn from: of many, half are those nearest to the constraint."""
    known = np.flatnonzero(~np.isnan(excess))
    return known[spread_rows(np.abs(excess[known]), _MOST_KNOWN)]


def _tamed(excess: FloatArray) -> FloatArray:
    """The excess with large values drawn in; what is above 0 stays there."""
    unit = float(np.median(np.abs(excess))) or 1.0
    return np.arcsinh(excess / unit)
