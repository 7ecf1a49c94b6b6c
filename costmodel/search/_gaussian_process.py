"""A Gaussian process on standardised features: what one workload's measurements say, and how surely.

Notations:
    n: known rows, m: asked rows, d: features. X is ``(n, d)`` or ``(m, d)``, NaN where a feature is missing.
    y: ``(n,)`` a smooth quantity, such as log latency above an analytic time.

Sources: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1 and equation
5.9; conditioning on a prediction: Ginsbourger et al., "Kriging is well-suited to parallelize
optimization", 2010, section 4.1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._kernel_ridge import matern_similarity
from costmodel.learners._scaler import Scaler

# Distance, in standard deviations of a column, over which y varies, and what features do not tell apart as a
# share of the variance. Chosen on measured H100 kernels, where the first 24 or 52 of a workload predict those
# drawn later: lengths from 0.7 to 2 and nuggets from 0.01 to 0.1 were about as good (experiments/proposals).
_LENGTH = 1.0
_NUGGET = 0.03
# A standard deviation of 1 %, for rows that are all alike.
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class GaussianProcess:
    """Exact Gaussian process regression with a Matern 3/2 kernel and a constant mean.

    Its hyperparameters are fixed but for the overall variance, so that two dozen kernels are enough, and
    nothing is random. The cost grows with the cube of the rows: 1,000 rows take a tenth of a second.

    Attributes:
        scaler: Learned from the first rows.
        Z: ``(n, d)`` known rows, standardised.
        above: ``(n,)`` y above ``mean``.
        mean: Mean of y far from all that is known.
        variance: Variance of y there.
    """

    scaler: Scaler
    Z: FloatArray
    above: FloatArray
    mean: float
    variance: float

    @classmethod
    def fit(cls, X: FloatArray, y: FloatArray) -> Self:
        """Learn from at least one row; the variance is the one that makes y most likely."""
        scaler = Scaler().fit(X)
        mean = float(y.mean())
        process = cls(scaler, scaler.transform(X), y - mean, mean, 1.0)
        variance = max(_LEAST_VARIANCE, float(process.above @ process._weights) / len(y))
        return cls(scaler, process.Z, process.above, mean, variance)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``(m,)`` mean and standard deviation of y, the part left out that features do not tell apart."""
        similar = self._similarity(self.scaler.transform(X))
        explained = np.einsum("mn,nm->m", similar, self._solve(similar.T))
        std = np.sqrt(self.variance * np.maximum(1.0 - explained, 0.0))
        return self.mean + similar @ self._weights, std

    def condition_on(self, X: FloatArray) -> Self:
        """The process after y was found at these rows as predicted: as good there, but surer."""
        mean, _ = self.predict(X)
        Z = np.vstack([self.Z, self.scaler.transform(X)])
        return type(self)(self.scaler, Z, np.append(self.above, mean - self.mean), self.mean, self.variance)

    @cached_property
    def _factor(self) -> tuple[FloatArray, bool]:
        """Cholesky factor of the covariance of what is known, in units of the variance."""
        from scipy.linalg import cho_factor  # takes a while to import, and all that searches imports this

        factor: tuple[FloatArray, bool] = cho_factor(self._similarity(self.Z) + _NUGGET * np.eye(len(self.Z)))
        return factor

    @cached_property
    def _weights(self) -> FloatArray:
        return self._solve(self.above)

    def _solve(self, values: FloatArray) -> FloatArray:
        """Of ``(n,)`` or ``(n, m)`` values, the covariance's inverse times these."""
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve(self._factor, values))

    def _similarity(self, Z: FloatArray) -> FloatArray:
        """``(m, n)`` kernel between standardised rows and the known ones, 1 for equal rows."""
        return matern_similarity(Z, self.Z, columns=self.scaler.varying, length=_LENGTH)
