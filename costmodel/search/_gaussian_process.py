"""Gaussian process regression: what the measurements of one function say of it, and how surely.

Notations:
    n: known rows, m: asked rows, d: features. X is ``(n, d)`` or ``(m, d)``, NaN where a feature is missing.
    y: ``(n,)`` a smooth quantity, such as log latency above an analytic time.

Sources: Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1 and equations
4.17 and 5.9; conditioning on a prediction: Ginsbourger et al., "Kriging is well-suited to parallelize
optimization", 2010, section 4.1; lengths that grow with the root of the dimension: Hvarfner et al., "Vanilla
Bayesian optimization performs great in high dimensions", ICML 2024.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._kernel_ridge import matern_similarity
from costmodel.learners._scaler import Scaler
from costmodel.transfer.models._known_covariance import KnownCovariance

# Distance, in standard deviations of a column, over which y varies, and what features do not tell apart as a
# share of the variance. Chosen on measured H100 kernels, where the first 24 or 52 of a workload predict those
# drawn later: lengths from 0.7 to 2 and nuggets from 0.01 to 0.1 were about as good (experiments/proposals).
_LENGTH = 1.0
_NUGGET = 0.03
# A standard deviation of 1 %, for rows that are all alike.
_LEAST_VARIANCE = 1e-4

# Where they are learned: mean and standard deviation of the natural log of each length and of the nugget, and
# shape and rate of the gamma prior on the inverse of the variance, in units of that of y.
_LOG_LENGTH = (0.0, 1.0)
_LOG_NUGGET = (-6.0, 2.0)
_DOUBT = 2.0
_BOUNDS = (-8.0, 8.0)
_LEAST_NUGGET = 1e-6
_LEARNED_FROM = 128  # rows; the work of a step grows with the cube of their number


# Of ``(m, d)`` and ``(n, d)`` standardised rows and the number of columns that vary, ``(m, n)`` similarities.
Kernel = Callable[[FloatArray, FloatArray, int], FloatArray]


@dataclass(frozen=True)
class GaussianProcess:
    """Exact Gaussian process regression with a Matern kernel and a constant mean, by Cholesky.

    Nothing is random. The cost grows with the cube of the rows: 1,000 rows take a tenth of a second.

    Attributes:
        kernel: Gives the similarity of rows, with smoothness 3/2 or 5/2.
        scaler: Standardises features.
        relevance: ``(d,)`` of each feature: the inverse of the length over which y varies.
        nugget: What features do not tell apart, as a share of the variance.
        Z: ``(n, d)`` known rows, standardised.
        above: ``(n,)`` y above ``mean``.
        mean: Mean of y far from all that is known.
        variance: Variance of y there.
    """

    kernel: Kernel
    scaler: Scaler
    relevance: FloatArray
    nugget: float
    Z: FloatArray
    above: FloatArray
    mean: float
    variance: float

    @classmethod
    def fit(cls, X: FloatArray, y: FloatArray) -> Self:
        """Learn mean and variance from at least one row, all features equally relevant.

        With nothing else to learn, two dozen kernels are enough. The variance is the one that makes y most
        likely.
        """
        scaler = Scaler().fit(X)
        relevance = np.full(X.shape[1], 1.0 / _LENGTH)
        mean = float(y.mean())
        process = cls(_rough, scaler, relevance, _NUGGET, scaler.transform(X), y - mean, mean, 1.0)
        variance = max(_LEAST_VARIANCE, process._known.misfit(process.above) / len(y))
        return replace(process, variance=variance)

    @classmethod
    def fit_relevance(cls, X: FloatArray, y: FloatArray, scaler: Scaler) -> Self:
        """Learn from at least one row how relevant each feature is, too.

        Relevance and nugget are those of the largest posterior density, of up to 128 rows: the lowest, which
        matter most, and others in the order of the rows.

        Args:
            X: ``(n, d)`` rows.
            y: ``(n,)`` what they were found to be.
            scaler: Knows the scale of the features, such as that of a draw from the whole space.
        """
        Z, centre, unit = scaler.transform(X), float(y.mean()), float(y.std())
        varies = unit > 1e-9 * (1.0 + abs(centre))  # what is below is rounding
        unit = unit if varies else 1.0
        some = spread_rows(y, _LEARNED_FROM)
        relevance, nugget = _most_likely(Z[some], (y[some] - centre) / unit * varies, scaler)
        process = cls(_smooth, scaler, relevance, nugget, Z, y, 0.0, 1.0)
        mean = process._known.level(y)
        misfit = process._known.misfit(y - mean)
        variance = (2.0 * _DOUBT * unit**2 + misfit) / (2.0 * _DOUBT + len(y))
        return replace(process, above=y - mean, mean=mean, variance=variance)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``(m,)`` mean and standard deviation of y, the part left out that features do not tell apart."""
        similar = self._similarity(self.scaler.transform(X))
        mean = self.mean + similar @ self._weights
        explained = self._known.explained_variance(similar)
        std = np.sqrt(self.variance * np.maximum(1.0 - explained, 0.0))
        return mean, std

    def predict_mean(self, X: FloatArray) -> FloatArray:
        """``(m,)`` mean of y, for much less work where many rows are asked for."""
        return np.asarray(self.mean + self._similarity(self.scaler.transform(X)) @ self._weights)

    def covariance(self, X: FloatArray) -> FloatArray:
        """``(m, m)`` covariance of y between rows, the part left out that features do not tell apart."""
        Z = self.scaler.transform(X)
        similar = self._similarity(Z)
        prior = self._between(Z, Z)
        return np.asarray(self.variance * (prior - self._known.explained_covariance(similar)))

    def condition_on(self, X: FloatArray, y: FloatArray | None = None) -> Self:
        """The process after y was found at these rows; as predicted, and so surer, unless it is given."""
        y = self.predict(X)[0] if y is None else y
        Z = np.vstack([self.Z, self.scaler.transform(X)])
        above = np.append(self.above, y - self.mean)
        return replace(self, Z=Z, above=above)

    @cached_property
    def _known(self) -> KnownCovariance:
        """Covariance of what is known, in units of the variance."""
        return KnownCovariance(self._similarity(self.Z) + self.nugget * np.eye(len(self.Z)))

    @cached_property
    def _weights(self) -> FloatArray:
        return self._known.solve(self.above)

    def _similarity(self, Z: FloatArray) -> FloatArray:
        """``(m, n)`` kernel between standardised rows and the known ones, 1 for equal rows."""
        return self._between(Z, self.Z)

    def _between(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Kernel between standardised rows."""
        return self.kernel(A * self.relevance, B * self.relevance, self.scaler.varying)


def _rough(A: FloatArray, B: FloatArray, columns: int) -> FloatArray:
    """``(m, n)`` Matern 3/2 kernel."""
    return matern_similarity(A, B, columns=columns, length=1.0)


def _smooth(A: FloatArray, B: FloatArray, columns: int) -> FloatArray:
    """``(m, n)`` Matern 5/2 kernel ``(1 + r + r^2 / 3) exp(-r)``, r the root of 5 times the mean square."""
    squared = np.square(A).sum(axis=1)[:, None] + np.square(B).sum(axis=1) - 2.0 * (A @ B.T)
    r = np.sqrt(np.maximum(squared, 0.0, out=squared) * (5.0 / columns))
    return np.asarray((1.0 + r + r * r / 3.0) * np.exp(-r))


def spread_rows(y: FloatArray, count: int) -> Positions:
    """Up to ``count`` rows: the lowest half, and others evenly spaced."""
    if len(y) <= count:
        return np.arange(len(y))
    lowest = np.argsort(y, kind="stable")[: count // 2]
    others = np.setdiff1d(np.arange(len(y)), lowest)
    return np.union1d(lowest, others[np.linspace(0, len(others) - 1, count - count // 2).astype(np.intp)])


def _most_likely(Z: FloatArray, y: FloatArray, scaler: Scaler) -> tuple[FloatArray, float]:
    """``(d,)`` relevance of each column, 0 where it is constant, and the nugget, of the largest density.

    What the prior expects where y is 0 throughout, which tells nothing of them.
    """
    from scipy.optimize import minimize

    varying = np.isfinite(scaler.scale_)
    if not np.any(y):
        return np.where(varying, np.exp(-_LOG_LENGTH[0]), 0.0), float(np.exp(_LOG_NUGGET[0]))
    columns = int(varying.sum())
    difference = Z[:, None, varying] - Z[None, :, varying]
    squares = np.ascontiguousarray(np.square(difference).transpose(2, 0, 1)) * (5.0 / max(1, columns))
    mean = np.append(np.full(columns, _LOG_LENGTH[0]), _LOG_NUGGET[0])
    std = np.append(np.full(columns, _LOG_LENGTH[1]), _LOG_NUGGET[1])
    starts = (mean, mean - np.append(np.full(columns, 1.0), 0.0))
    found = [
        minimize(
            _loss,
            start,
            args=(squares, y, mean, std),
            jac=True,
            method="L-BFGS-B",
            bounds=[_BOUNDS] * (columns + 1),
            options={"maxiter": 50},
        )
        for start in starts
    ]
    best = min(found, key=lambda each: float(each.fun)).x
    relevance = np.zeros(Z.shape[1])
    relevance[varying] = np.exp(-best[:-1])
    return relevance, float(np.exp(best[-1])) + _LEAST_NUGGET


def _loss(
    theta: FloatArray, squares: FloatArray, y: FloatArray, mean: FloatArray, std: FloatArray
) -> tuple[float, FloatArray]:
    """Minus log density of y with mean and variance integrated or profiled out, and its gradient.

    Args:
        theta: ``(d + 1,)`` natural logs of the lengths and of the nugget.
        squares: ``(d, n, n)`` squared differences of the rows, times 5 / d.
        y: ``(n,)`` in units of its standard deviation.
        mean: ``(d + 1,)`` means of theta's normal prior.
        std: ``(d + 1,)`` its standard deviations.
    """
    from scipy.linalg import cho_factor, cho_solve

    parts = squares * np.exp(-2.0 * theta[:-1])[:, None, None]
    r = np.sqrt(parts.sum(axis=0))
    decay = np.exp(-r)
    nugget = float(np.exp(theta[-1]))
    covariance = (1.0 + r + r * r / 3.0) * decay + (nugget + _LEAST_NUGGET) * np.eye(len(y))
    factor = cho_factor(covariance, lower=True)
    inverse = cho_solve(factor, np.eye(len(y)))
    by_one = inverse.sum(axis=1)
    weights = inverse @ y - by_one * (float(by_one @ y) / float(by_one.sum()))
    misfit = _DOUBT + 0.5 * float(y @ weights)
    freedom = _DOUBT + 0.5 * len(y)
    away = (theta - mean) / std
    loss = freedom * np.log(misfit) + float(np.log(np.diag(factor[0])).sum()) + 0.5 * float(away @ away)
    slope = 0.5 * (inverse - (freedom / misfit) * np.outer(weights, weights))  # by the covariance
    by_length = np.einsum("ij,dij->d", slope * decay * (1.0 + r) / 3.0, parts)
    gradient = np.append(by_length, nugget * float(np.trace(slope)))
    return float(loss), gradient + away / std
