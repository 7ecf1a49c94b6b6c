"""A prior belief on log latencies, conditioned on the first measurements of a task.

Notations are those of ``costmodel.learners``, and m: measured candidates of the task.
"""

from collections.abc import Callable

import numpy as np

from costmodel.learners import FloatArray, Prediction, Scaler

# A config that failed counts as 4 times slower than the slowest that ran: bad enough to steer away from its
# neighbours, not so bad as to bend the whole surface.
FAILURE_LOG_PENALTY = float(np.log(4.0))


class Calibrated:
    """Gaussian process on what a prior gets wrong.

    ``log latency = prior + c + deviation + noise``: c is the same for all candidates of the task, normal
    around 0 with standard deviation ``scale``; the deviation has covariance ``kernel``. Without anything
    near, a candidate keeps its prior, shifted by c; with one measurement only c and its neighbourhood move.
    The posterior mean is that of Rasmussen and Williams, "Gaussian Processes for Machine Learning", equations
    2.25 and 2.41-2.42.

    Args:
        prior: Maps ``(n, d)`` features to ``(n,)`` log latency.
        kernel: Maps features ``(n, d)`` and ``(m, d)`` to the ``(n, m)`` covariance of deviations.
        X: ``(m, d)`` measured candidates, m >= 1.
        y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        noise: Standard deviation of a measurement's log latency, above 0.
        scale: Standard deviation of c; inf for a prior that is right only up to a factor.

    Raises:
        ValueError: Shapes disagree, or a latency is NaN or not positive.
    """

    def __init__(  # noqa: PLR0913 (the parts of one formula)
        self,
        prior: Callable[[FloatArray], FloatArray],
        kernel: Callable[[FloatArray, FloatArray], FloatArray],
        X: FloatArray,
        y: FloatArray,
        *,
        noise: float,
        scale: float = np.inf,
    ) -> None:
        if X.ndim != 2 or y.shape != X.shape[:1] or not y.size:
            raise ValueError(
                f"X and y must have shapes (m, d) and (m,) with m >= 1, but got {X.shape} and {y.shape}"
            )
        if not (y > 0).all():
            raise ValueError(
                f"latencies must be positive, inf for failures, but got {y[~(y > 0)][:3].tolist()}"
            )
        self._prior, self._kernel, self._X = prior, kernel, X
        self._knows_latency = bool(np.isfinite(y).any())
        surprise = _surprise(np.log(y), prior(X))
        covariance = kernel(X, X) + noise**2 * np.eye(y.size)
        by_surprise, by_one = np.linalg.solve(covariance, np.stack([surprise, np.ones(y.size)], axis=1)).T
        # Failures alone tell no scale: c stays 0, and they push their neighbourhoods down instead.
        precision = scale**-2.0 if self._knows_latency else np.inf
        self._shift = float(by_surprise.sum() / (by_one.sum() + precision))
        self._weights = by_surprise - self._shift * by_one

    def predict(self, X: FloatArray) -> Prediction:
        """Posterior mean; the score is -log latency. No latency is given when every measurement failed."""
        log_latency = self._prior(X) + self._shift + self._kernel(X, self._X) @ self._weights
        return Prediction(-log_latency, np.exp(log_latency) if self._knows_latency else None)


def neighbourhood(scaler: Scaler, A: FloatArray, B: FloatArray, length: float) -> FloatArray:
    """``(n, m)`` correlation ``exp(-d^2 / (2 length^2))`` between rows of A and of B.

    d is the root mean square distance over the standardised columns that vary.
    """
    from scipy.spatial.distance import cdist

    varying = max(1, int(np.isfinite(scaler.scale_).sum()))
    squared = cdist(scaler.transform(A), scaler.transform(B), "sqeuclidean") / varying
    return np.asarray(np.exp(-0.5 * squared / length**2))


def _surprise(log_latency: FloatArray, prior: FloatArray) -> FloatArray:
    """``(m,)`` log latency beyond the prior; failures get a penalty beyond the slowest that ran."""
    ran = np.isfinite(log_latency)
    if not ran.any():
        return np.full_like(log_latency, FAILURE_LOG_PENALTY)
    surprise = np.where(ran, log_latency, 0.0) - prior
    slowest = np.maximum(log_latency[ran].max() - prior, surprise[ran].max())
    return np.where(ran, surprise, slowest + FAILURE_LOG_PENALTY)
