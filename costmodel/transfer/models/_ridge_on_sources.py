"""A simple rule that is hard to beat with a few measurements: ridge regression on the sources."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._base import Prediction
from costmodel.learners._curves import TaskCurves
from costmodel.learners._registry import register
from costmodel.learners._training import prepare
from costmodel.transfer._base import StorableModel
from costmodel.transfer.models._calibrated import Calibrated


@register("ridge-on-sources")
class RidgeOnSources(StorableModel):
    """Reads a new task as a mixture of source tasks.

    Each source's log score, interpolated where it did not measure a config (``TaskCurves``), is one
    regressor. Zero-shot they all weigh the same: the mean of log(best / time) over sources. Measurements of
    the new task move the weights away from that mean, against a quadratic penalty. The penalty is solved in
    its dual form, as a Gaussian process with a linear kernel, so that a few measurements of hundreds of
    sources cost nothing.

    Args:
        task_columns: Positions of the columns that describe the task; they take no part in the interpolation.
        neighbours: Configs of each source task to average.
        std: Prior standard deviation of the weights' total deviation from the mean; larger trusts the
            measurements sooner.
        noise: Standard deviation of what no mixture of sources explains, in log latency.
        config_columns: Positions of the columns that describe the config, see ``TaskCurves``.
    """

    def __init__(
        self,
        task_columns: tuple[int, ...],
        *,
        neighbours: int = 3,
        std: float = 1.0,
        noise: float = 0.1,
        config_columns: tuple[int, ...] | None = None,
    ) -> None:
        self.task_columns = task_columns
        self.config_columns = config_columns
        self.neighbours = neighbours
        self.std = std
        self.noise = noise

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(
            positions(columns, "workload", "platform"),
            config_columns=positions(columns, "config", tags=("kernel",)),
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        self.curves_ = self._curves().fit(prepare(X, y, task_ids))
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Mean log score over the sources that say something of a config."""
        return Prediction(-self._prior(X))

    def adapt(self, X: FloatArray, y: FloatArray) -> Calibrated:
        """The mixture of sources that the measurements show."""
        return Calibrated(self._prior, self._kernel, X, y, noise=self.noise)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return self.curves_.state()

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.curves_ = self._curves().load_state(state)
        return self

    def _curves(self) -> TaskCurves:
        return TaskCurves(self.task_columns, self.neighbours, self.config_columns)

    def _prior(self, X: FloatArray) -> FloatArray:
        comparable = self.curves_.comparable(X).sum(axis=1)
        return -np.asarray(self.curves_.log_scores(X).sum(axis=1) / np.maximum(comparable, 1))

    def _kernel(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Covariance of the mixture: each weight deviates by ``std / sqrt(t)``."""
        a, b = self.curves_.log_scores(A), self.curves_.log_scores(B)
        return np.asarray(self.std**2 / a.shape[1] * (a @ b.T))
