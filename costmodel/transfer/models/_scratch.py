"""No transfer at all: what a new task's own measurements teach."""

from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler
from costmodel.transfer._base import StorableModel
from costmodel.transfer.models._calibrated import Calibrated, neighbourhood


@register()
class FromScratch(StorableModel):
    """A Gaussian process on the features of the new task alone; the baseline that transfer must not harm.

    Before the first measurement all candidates are equal to it. Its covariance is
    ``deviation^2 exp(-d^2 / (2 length^2))``, see ``neighbourhood``.

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
        """What the measurements show."""
        return Calibrated(lambda rows: np.zeros(len(rows)), self._kernel, X, y, noise=self.noise)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return self.scaler_.state()

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state)
        return self

    def _kernel(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return self.deviation**2 * neighbourhood(self.scaler_, A, B, self.length)
