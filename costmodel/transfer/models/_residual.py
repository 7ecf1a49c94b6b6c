"""Any learner as a transfer model, and the Gaussian process that learns a task from nothing."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import StorableModel
from costmodel.transfer.models._calibrated import Calibrated, OrderAndLatency, correlate_rows


@register()
class Residual(StorableModel):
    """Zero-shot a learner; few-shot the learner plus a Gaussian process on its residuals.

    The prior log latency is that which the learner predicts. A learner that predicts none has its score read
    as ``log(best / latency)`` with the best unknown, which is what all learners here give but the random one.
    The covariance of the residuals is

    ``slope^2 s s' + deviation^2 exp(-d^2 / (2 length^2))``

    with s the prior: the first term lets measurements stretch or flatten it (a score without meaning is
    flattened away), the second corrects neighbourhoods, see ``correlate_rows``. A learner whose score says
    more than its latency, see ``Learner``, has one such process for each.

    Args:
        learner: The learner.
        deviation: Standard deviation of the residual, in log latency.
        length: Distance at which residuals are correlated by 0.61.
        slope: Standard deviation of the score's slope around 1.
        noise: Standard deviation of what features do not tell apart, in log latency.
        scale: Standard deviation of a predicted latency's error that all candidates of a task share, in log
            latency.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        learner: Learner,
        *,
        deviation: float = 0.25,
        length: float = 0.5,
        slope: float = 0.25,
        noise: float = 0.05,
        scale: float = 0.5,
    ) -> None:
        self.learner = learner
        self.deviation = deviation
        self.length = length
        self.slope = slope
        self.noise = noise
        self.scale = scale

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit the learner, and the scale of the columns."""
        self.learner.fit(X, y, task_ids)
        self.scaler_ = Scaler().fit(X)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The learner's prediction."""
        return self.learner.predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Calibrated | OrderAndLatency:
        """The learner's prediction, corrected by the measurements."""
        if self.predict(X[:1]).latency_s is None:
            return self._calibrated(self._order, np.inf, X, y)
        timed = self._calibrated(self._log_latency, self.scale, X, y)
        if not self.learner.orders_apart:
            return timed
        return OrderAndLatency(self._calibrated(self._order, np.inf, X, y), timed)

    def _calibrated(
        self, prior_of: Callable[[FloatArray], FloatArray], scale: float, X: FloatArray, y: FloatArray
    ) -> Calibrated:
        # The slope turns the prior around its mean over what was measured.
        pivot = float(prior_of(X).sum()) / max(1, len(X))

        def with_prior(X: FloatArray) -> FloatArray:
            return np.column_stack([X, prior_of(X)])

        def prior(A: FloatArray) -> FloatArray:
            return A[:, -1]

        def kernel(A: FloatArray, B: FloatArray) -> FloatArray:
            stretch = self.slope**2 * np.outer(prior(A) - pivot, prior(B) - pivot)
            near = correlate_rows(self.scaler_, A[:, :-1], B[:, :-1], self.length)
            return np.asarray(stretch + self.deviation**2 * near)

        return Calibrated(prior, kernel, X, y, noise=self.noise, scale=scale, inputs=with_prior)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"learner": self.learner.state(), "scaler": self.scaler_.state()}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.learner.load_state(stored.part("learner"))
        self.scaler_ = Scaler().load_state(stored.part("scaler"))
        return self

    def _log_latency(self, X: FloatArray) -> FloatArray:
        """``(n,)`` of a learner that predicts it."""
        latency_s = self.predict(X).latency_s
        assert latency_s is not None
        return np.log(latency_s)

    def _order(self, X: FloatArray) -> FloatArray:
        """``(n,)`` log latency up to a constant, as the score says it."""
        return -self.predict(X).score


@register()
class FromScratch(StorableModel):
    """A Gaussian process on the features of the new task alone; the baseline that transfer must not harm.

    Before the first measurement all candidates are equal to it. Its covariance is
    ``deviation^2 exp(-d^2 / (2 length^2))``, see ``correlate_rows``.

    Args:
        deviation: Standard deviation of log latency among the candidates of a task.
        length: Distance at which log latencies are correlated by 0.61.
        noise: Standard deviation of what features do not tell apart, in log latency.
    """

    def __init__(self, *, deviation: float = 1.0, length: float = 1.5, noise: float = 0.1) -> None:
        self.deviation = deviation
        self.length = length
        self.noise = noise

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn the scale of the columns and nothing else; latencies may be unknown (NaN)."""
        self.scaler_ = Scaler().fit(X)
        return self

    def scaled_by(self, X: FloatArray) -> Self:
        """Learn the scale of the columns from candidates of which no latency is known."""
        unknown = np.full(len(X), np.nan)
        return self.fit(X, unknown, unknown)

    def predict(self, X: FloatArray) -> Prediction:
        """The same score for all."""
        return Prediction(np.zeros(len(X)))

    def adapt(self, X: FloatArray, y: FloatArray) -> Calibrated:
        """Condition on the measurements."""
        return Calibrated(lambda rows: np.zeros(len(rows)), self._kernel, X, y, noise=self.noise)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return self.scaler_.state()

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state)
        return self

    def _kernel(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return self.deviation**2 * correlate_rows(self.scaler_, A, B, self.length)
