"""Kernels that were measured on other platforms: how they depart from what others tell."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._kernel_ridge import KernelRidge, matern_similarity
from costmodel.learners._registry import register
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._scaler import Scaler, distinct_rows, row_keys
from costmodel.learners._stored_state import StoredState, check_positions
from costmodel.learners._training import check_features, prepare
from costmodel.learners.trees._boosted_trees import XGBoostLearner


class KernelDepartures:
    """Tables of how kernels depart from a prediction, kernels by platforms, NaN where nothing was measured.

    Departures of one kernel on platforms p and q have the covariance

    ``1 + drift * matern(distance of p and q) + [p = q] noise``

    in units of the variance of kernels' mean departures; those of different kernels have none. This is simple
    kriging of what a trend leaves (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
    section 2.7).

    Notations:
        n: rows, k: kernels, p: platforms.

    Args:
        kernel_columns: Positions of the columns by which a kernel is known again on any platform.
        platform_columns: Positions of the columns that tell platforms apart, the same for all kernels.
        length: Distance, in standard deviations of a platform column, over which departures drift.
        drift: Variance of the drift.
        noise: Variance of what is on one platform alone.
    """

    def __init__(
        self,
        kernel_columns: tuple[int, ...],
        platform_columns: tuple[int, ...],
        *,
        length: float,
        drift: float,
        noise: float,
    ) -> None:
        self.kernel_columns = list(kernel_columns)
        self.platform_columns = list(platform_columns)
        self.length = length
        self.drift = drift
        self.noise = noise

    def fit(self, X: FloatArray, log_latency: FloatArray, trend: FloatArray) -> Self:
        """Fill the tables; what was measured twice counts by its mean.

        Args:
            X: ``(n, d)`` features.
            log_latency: ``(n,)`` finite.
            trend: ``(n,)`` log latency as predicted.
        """
        first_kernel, kernel = distinct_rows(X[:, self.kernel_columns])
        first_platform, platform = distinct_rows(X[:, self.platform_columns])
        platforms = X[first_platform][:, self.platform_columns]
        self.scaler_ = Scaler().fit(platforms)
        self.platforms_ = self.scaler_.transform(platforms)
        cell, shape = (kernel, platform), (len(first_kernel), len(first_platform))
        self.log_latency_ = _mean_table(cell, log_latency, shape)
        self.departure_ = _mean_table(cell, log_latency - trend, shape)
        return self._remember(X[first_kernel][:, self.kernel_columns])

    def places(self, X: FloatArray) -> NDArray[np.intp]:
        """``(n,)`` place of each row's kernel in the tables; -1 for one that was never measured."""
        keys = row_keys(X[:, self.kernel_columns])
        return np.array([self._place_of.get(key, -1) for key in keys], dtype=np.intp)

    def expected(self, X: FloatArray, place: NDArray[np.intp]) -> FloatArray:
        """``(n,)`` departure to expect on each row's platform of the kernel at its place."""
        covariance, departure = self._covariance(self._standardised(X)), self.departure_[place]
        known = ~np.isnan(departure)
        # What a departure weighs is the same for all kernels that are known on the same platforms.
        first, case = distinct_rows(np.where(known, covariance, np.nan))
        between = self._covariance(self.platforms_) + self.noise * np.eye(len(self.platforms_))
        weights = np.zeros((len(first), len(self.platforms_)))
        for i, (on, row) in enumerate(zip(known[first], covariance[first], strict=True)):
            weights[i, on] = np.linalg.solve(between[np.ix_(on, on)], row[on])
        return np.asarray((weights[case] * np.nan_to_num(departure)).sum(axis=1))

    def measured(self, X: FloatArray, place: NDArray[np.intp]) -> FloatArray:
        """``(n,)`` log latency of the kernel at each row's place on this platform; NaN where it has none.

        A platform that differs only in what never varied is taken for the one that it equals otherwise.
        """
        same = (self._standardised(X)[:, None] == self.platforms_).all(axis=2)
        found = same & ~np.isnan(self.log_latency_[place])
        total = np.where(found, self.log_latency_[place], 0.0).sum(axis=1)
        count = found.sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "scaler": self.scaler_.state(),
            "platforms": self.platforms_,
            "kernels": self.kernels_,
            "log_latency": self.log_latency_,
            "departure": self.departure_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state["scaler"])
        stored = StoredState(state)
        self.platforms_ = stored.floats("platforms", "p", len(self.platform_columns))
        self.log_latency_, self.departure_ = (
            stored.floats(name, "k", "p", missing=True) for name in ("log_latency", "departure")
        )
        columns = len(self.kernel_columns)
        return self._remember(stored.floats("kernels", "k", columns, missing=True, infinite=True))

    def _remember(self, kernels: FloatArray) -> Self:
        self.kernels_ = kernels
        self._place_of = {key: place for place, key in enumerate(row_keys(kernels))}
        return self

    def _standardised(self, X: FloatArray) -> FloatArray:
        return self.scaler_.transform(X[:, self.platform_columns])

    def _covariance(self, Z: FloatArray) -> FloatArray:
        """``(n, p)`` covariance of departures on these platforms and on the known ones, without noise."""
        matern = matern_similarity(Z, self.platforms_, columns=self.scaler_.varying, length=self.length)
        return 1.0 + self.drift * matern


def _mean_table(
    cell: tuple[NDArray[np.intp], NDArray[np.intp]], values: FloatArray, shape: tuple[int, int]
) -> FloatArray:
    """Mean of the values in each cell; NaN in an empty one."""
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, cell, values)
    np.add.at(count, cell, 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


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
