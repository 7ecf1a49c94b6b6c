"""A prior on log latencies, conditioned on the first measurements of a task.

Notations are those of ``costmodel.learners``, and m: measured candidates of the task.
"""

from collections.abc import Callable

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.transfer._base import Predictor, check_measured
from costmodel.transfer.models._known_covariance import KnownCovariance
from costmodel.transfer.models._quantiles import std_of

_BLOCK = 128  # rows whose covariance is worked out at once, where only its diagonal is wanted

# Shape and rate of the gamma prior on the inverse of a common factor of all variances: as after four
# measurements.
_DOUBT = 2.0

# A config that failed counts as 4 times slower than the slowest that ran: bad enough to steer away from its
# neighbours, not so bad as to bend the whole surface.
FAILURE_LOG_PENALTY = float(np.log(4.0))


class Calibrated:
    """Gaussian process on what a prior gets wrong.

    ``log latency = prior + c + deviation + noise``: c is the same for all candidates of the task, normal
    around 0 with standard deviation ``scale``; the deviation has covariance ``kernel``. Without anything
    near, a candidate keeps its prior, shifted by c; with one measurement only c and its correlate_rows move.
    The posterior mean and covariance are those of Rasmussen and Williams, "Gaussian Processes for Machine
    Learning", equations 2.25, 2.26 and 2.41-2.42.

    Args:
        prior: Maps ``(n, e)`` inputs to ``(n,)`` log latency.
        kernel: Maps inputs ``(n, e)`` and ``(m, e)`` to the ``(n, m)`` covariance of deviations.
        X: ``(m, d)`` measured candidates, m >= 1.
        y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        noise: Standard deviation of a measurement's log latency, above 0.
        scale: Standard deviation of c; inf for a prior that is right only up to a factor.
        inputs: Maps ``(n, d)`` features to the inputs, once for each row that is asked for; the features
            themselves unless given.

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
        inputs: Callable[[FloatArray], FloatArray] = np.asarray,
    ) -> None:
        check_measured(X, y)
        known = inputs(X)
        self._prior, self._kernel, self._inputs, self._known, self._noise = (
            prior,
            kernel,
            inputs,
            known,
            noise,
        )
        self._knows_latency = bool(np.isfinite(y).any())
        self._measured = KnownCovariance(kernel(known, known) + noise**2 * np.eye(len(known)))
        by_one = self._measured.by_one
        # Failures alone tell no scale: c stays 0, and they push their neighbourhoods down instead.
        self._c_precision = float(by_one.sum()) + (scale**-2.0 if self._knows_latency else np.inf)
        self._surprise = _surprise(np.log(y), prior(known))
        self._shift = float(by_one @ self._surprise) / self._c_precision
        self._weights = self._measured.solve(self._surprise - self._shift)

    def predict(self, X: FloatArray) -> Prediction:
        """Posterior mean; the score is -log latency. No latency is given when every measurement failed."""
        A = self._inputs(X)
        log_latency = self._mean(A, self._kernel(A, self._known))
        return Prediction(-log_latency, np.exp(log_latency) if self._knows_latency else None)

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior of the log latencies of n candidates, without the noise of a measurement.

        Returns:
            Mean ``(n,)`` and covariance ``(n, n)``. Where all measurements failed, the mean is known up to a
            constant only.
        """
        A = self._inputs(X)
        known = self._kernel(A, self._known)
        unexplained = 1.0 - known @ self._measured.by_one
        covariance = self._kernel(A, A) - self._measured.explained_covariance(known)
        return self._mean(A, known), covariance + np.outer(unexplained, unexplained) / self._c_precision

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a new measurement's log latency, its noise included."""
        A = self._inputs(X)
        known = self._kernel(A, self._known)
        unexplained = 1.0 - known @ self._measured.by_one
        blocks = np.split(A, np.arange(_BLOCK, len(A), _BLOCK))
        own = np.concatenate([np.diag(self._kernel(block, block)) for block in blocks])
        unsure = own - self._measured.explained_variance(known)
        variance = unsure + unexplained**2 / self._c_precision
        return np.asarray(np.sqrt(np.maximum(variance, 0.0) + self._noise**2))

    def log_evidence(self) -> float:
        """Log density of the measurements' log latencies up to a common shift, to compare models by.

        The likelihood of their contrasts (Harville, JASA 72, 1977), in which c does not occur, with all
        variances multiplied by an unknown factor whose inverse is gamma distributed with shape and rate
        ``_DOUBT``: a model that is too sure of itself loses less than one whose order is wrong. Constants
        that depend on m alone are left out; of a single measurement it is 0.
        """
        if self._surprise.size < 2:
            return 0.0
        misfit = self._measured.misfit(self._surprise - self._measured.level(self._surprise))
        log_determinant = self._measured.log_determinant + np.log(self._measured.by_one.sum())
        freedom = _DOUBT + (self._surprise.size - 1) / 2
        return float(-0.5 * log_determinant - freedom * np.log1p(0.5 * misfit / _DOUBT))

    def level_surprise(self) -> float:
        """By how many of its standard deviations c was found off 0; 0 where a prior tells no latency."""
        total = float(self._measured.by_one.sum())
        own = self._c_precision - total
        if not np.isfinite(self._c_precision) or own <= 0.0:
            return 0.0
        return float(self._measured.level(self._surprise) / np.sqrt(1.0 / own + 1.0 / total))

    def _mean(self, A: FloatArray, known: FloatArray) -> FloatArray:
        return np.asarray(self._prior(A) + self._shift + known @ self._weights)


class OrderAndLatency:
    """Two corrections of one prediction by the same measurements: of its order, and of its latencies.

    Args:
        order: Corrects what the score says, whose level means nothing before a measurement.
        timed: Corrects the predicted latency.
    """

    def __init__(self, order: Calibrated, timed: Calibrated) -> None:
        self._order, self._timed = order, timed

    def predict(self, X: FloatArray) -> Prediction:
        """The score of the one, the latency of the other."""
        return Prediction(self._order.predict(X).score, self._timed.predict(X).latency_s)

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of log latencies, by which candidates are chosen: those of the order."""
        return self._order.posterior(X)

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a new measurement's log latency, by that of the order."""
        return self._order.std(X)

    def log_evidence(self) -> float:
        """Log density of the measurements' contrasts by the order, see ``Calibrated``."""
        return self._order.log_evidence()

    def level_surprise(self) -> float:
        """How wrong the predicted level was, see ``Calibrated``."""
        return self._timed.level_surprise()


def correlate_rows(scaler: Scaler, A: FloatArray, B: FloatArray, length: float) -> FloatArray:
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


class Mixture:
    """Two predictors of one task, in proportion.

    Args:
        informed: The predictor that transfers.
        ignorant: The one that does not.
        weight: Share of the first in the mean of log latency.
    """

    def __init__(self, informed: Predictor, ignorant: Predictor, weight: float) -> None:
        self.informed = informed
        self.ignorant = ignorant
        self.weight = weight

    def predict(self, X: FloatArray) -> Prediction:
        """The mean of both log latencies; the score is -log latency."""
        both = self.informed.predict(X), self.ignorant.predict(X)
        score = self.weight * both[0].score + (1.0 - self.weight) * both[1].score
        return Prediction(score, None if both[0].latency_s is None else np.exp(-score))

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of the mixture's log latency, disagreement included."""
        w = self.weight
        apart = self.informed.predict(X).score - self.ignorant.predict(X).score
        informed, ignorant = std_of(self.informed, X), std_of(self.ignorant, X)
        return np.asarray(np.sqrt(w * informed**2 + (1 - w) * ignorant**2 + w * (1 - w) * apart**2))


class JointMixture(Mixture):
    """Two posteriors of one task of which one is right, in proportion to how well each foretold it.

    Args:
        informed: The posterior that transfers.
        ignorant: The one that does not.
        share: Probability of the first before anything is measured.
    """

    informed: Calibrated
    ignorant: Calibrated

    def __init__(self, informed: Calibrated, ignorant: Calibrated, share: float) -> None:
        evidence = np.array([informed.log_evidence(), ignorant.log_evidence()])
        odds = np.log([share, 1.0 - share]) + evidence
        self._log_evidence = float(np.logaddexp(*odds))
        super().__init__(informed, ignorant, float(np.exp(odds[0] - self._log_evidence)))

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior of the log latencies; what the two disagree on is uncertain."""
        w, both = self.weight, (self.informed.posterior(X), self.ignorant.posterior(X))
        apart = both[0][0] - both[1][0]
        mean, covariance = (w * one + (1 - w) * other for one, other in zip(*both, strict=True))
        return mean, covariance + w * (1 - w) * np.outer(apart, apart)

    def log_evidence(self) -> float:
        """Log density of the measurements' log latencies, see ``Calibrated``: the mean over the two."""
        return self._log_evidence

    def level_surprise(self) -> float:
        """How wrong the predicted level was, see ``Calibrated``; neither of the two tells one."""
        return 0.0
