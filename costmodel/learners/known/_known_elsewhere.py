"""A kernel that was measured on other platforms."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._kernel_ridge import KernelRidge
from costmodel.learners._registry import register
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._stored_state import StoredState, check_positions
from costmodel.learners._training import check_features, prepare
from costmodel.learners.known._departures import KernelDepartures
from costmodel.learners.trees._xgboost import XGBoostLearner


@register("known-elsewhere")
class KnownElsewhere(Learner):
    """Latency as other kernels tell it, and as the very kernel does from wherever else it was measured.

    How far a kernel departs from what others tell is much the same on near platforms: what is expected on
    one platform follows from all others where it was measured, see ``KernelDepartures``. That is best where
    near ones are known; where only far ones are, ``scaled`` is. A kernel known elsewhere gets the geometric
    mean of both latencies, which on h100-sm-budgets chooses as well as the better one with the whole device
    known, and nearly so with all other budgets. One never measured gets what ``scaled.unmeasured`` says, and
    one measured on this platform, or on another that no column which varied tells from it, that latency: how
    a device differs from the only one known cannot be learned. A failure counts as slow as
    ``LOWEST_LOG_SCORE`` says.

    Args:
        scaled: Its ``kernel_columns`` are those by which a kernel is known again on any platform.
        platform_columns: Positions of the columns that tell platforms apart, the same for all kernels.
        length: Distance, in standard deviations of a platform column, over which departures drift.
        drift: Variance of that drift over that of kernels' mean departures.
        noise: Variance of what is on one platform alone over the same.
    """

    def __init__(
        self,
        scaled: ScaledFromWhole,
        platform_columns: tuple[int, ...],
        *,
        length: float = 1.0,
        drift: float = 0.3,
        noise: float = 0.05,
    ) -> None:
        self.scaled = scaled
        self.platform_columns = platform_columns
        self.length = length
        self.drift = drift
        self.noise = noise

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        scaled = ScaledFromWhole(
            KernelRidge.for_columns(columns, seed),
            XGBoostLearner(seed=seed, rounds=300, depth=7, learning_rate=0.08),
            positions(columns, "workload", "config", tags=("kernel",)),
            position(columns, "sms"),
        )
        return cls(scaled, positions(columns, tags=("machine",)))

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn latencies, how kernels scale, and how each departs from what others tell."""
        training = prepare(X, y, task_ids)
        self.width_ = X.shape[1]
        self.scaled.fit(X, y, task_ids)
        trend = self._trend(training.X)
        self.departures_ = self._unfitted().fit(training.X, training.clipped_log_latency, trend)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score.

        Raises:
            ValueError: The learner of kernels that were never measured predicts no latency.
        """
        check_features(X, self.width_)
        log_latency = self._trend(X)
        place = self.departures_.places(X)
        known = np.flatnonzero(place >= 0)
        if known.size:
            rows, place = X[known], place[known]
            scaled = self.scaled.predict(rows).latency_s
            assert scaled is not None
            departed = log_latency[known] + self.departures_.expected(rows, place)
            measured = self.departures_.measured(rows, place)
            mean = (departed + np.log(scaled)) / 2.0
            log_latency[known] = np.where(np.isnan(measured), mean, measured)
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "width": self.width_,
            "scaled": self.scaled.state(),
            "departures": self.departures_.state(),
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.width_ = stored.count("width")
        self.scaled.load_state(stored.part("scaled"))
        self.departures_ = self._unfitted().load_state(stored.part("departures"))
        check_positions(self.width_, *self.platform_columns)
        return self

    def _unfitted(self) -> KernelDepartures:
        return KernelDepartures(
            self.scaled.kernel_columns,
            self.platform_columns,
            length=self.length,
            drift=self.drift,
            noise=self.noise,
        )

    def _trend(self, X: FloatArray) -> FloatArray:
        """``(n,)`` log latency as other kernels tell it."""
        latency_s = self.scaled.unmeasured.predict(X).latency_s
        if latency_s is None:
            raise ValueError("scaled.unmeasured must predict latencies, but it predicts scores alone")
        return np.log(latency_s)
