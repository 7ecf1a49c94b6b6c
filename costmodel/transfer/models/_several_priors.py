"""A Gaussian process that does not know which of several priors its task has."""

from collections.abc import Callable

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.transfer.models._calibrated import Calibrated


class SeveralPriors(Calibrated):
    """Priors of which one is right, weighed by how well each foretold what was measured.

    Under each prior it is a ``Calibrated``; a prior's weight is its share times its evidence (Bayesian model
    averaging: Hoeting et al., Statistical Science 14, 1999). The posterior has the mean and the covariance of
    that mixture of normals.

    Args:
        priors: Maps ``(n, d)`` features to ``(n, p)`` log latencies, a column for each prior.
        share: ``(p,)`` probability of each prior before anything is measured.
        kernel: See ``Calibrated``; that of the deviation from whichever prior is right.
        X: See ``Calibrated``.
        y: See ``Calibrated``.
        noise: See ``Calibrated``.

    Attributes:
        share: ``(p,)`` probability of each prior after the measurements.
    """

    def __init__(  # noqa: PLR0913 (the parts of one formula)
        self,
        priors: Callable[[FloatArray], FloatArray],
        share: FloatArray,
        kernel: Callable[[FloatArray, FloatArray], FloatArray],
        X: FloatArray,
        y: FloatArray,
        *,
        noise: float,
    ) -> None:
        p = len(share)

        def with_priors(X: FloatArray) -> FloatArray:
            return np.column_stack([priors(X), X])

        def deviation(A: FloatArray, B: FloatArray) -> FloatArray:
            return kernel(A[:, p:], B[:, p:])

        known = with_priors(X)
        self._each = [Calibrated(_column(i), deviation, known, y, noise=noise) for i in range(p)]
        self._log_odds = np.log(share) + [one.log_evidence() for one in self._each]
        self.share = np.exp(self._log_odds - np.logaddexp.reduce(self._log_odds))
        # The mean is linear in the prior, so that it is that of the mean prior.
        super().__init__(lambda A: A[:, :p] @ self.share, deviation, X, y, noise=noise, inputs=with_priors)

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior of the log latencies; what the priors disagree on is uncertain."""
        mean, covariance = super().posterior(X)
        apart = self._apart(X)
        return mean, covariance + (self.share * apart) @ apart.T

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a new measurement's log latency, its noise included."""
        return np.asarray(np.sqrt(super().std(X) ** 2 + np.square(self._apart(X)) @ self.share))

    def log_evidence(self) -> float:
        """Log density of the measurements' log latencies, see ``Calibrated``: the mean over the priors."""
        return float(np.logaddexp.reduce(self._log_odds))

    def _apart(self, X: FloatArray) -> FloatArray:
        """``(n, p)`` by how much the mean under each prior is above that of all."""
        A = self._inputs(X)
        known = self._kernel(A, self._known)
        means = np.column_stack([one._mean(A, known) for one in self._each])
        return np.asarray(means - (means @ self.share)[:, None])


def _column(i: int) -> Callable[[FloatArray], FloatArray]:
    return lambda A: A[:, i]
