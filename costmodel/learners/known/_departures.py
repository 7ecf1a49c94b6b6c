"""How each kernel departs from a prediction, platform by platform, and what that says of other platforms.

Departures of one kernel on platforms p and q have the covariance

``1 + drift * matern(distance of p and q) + [p = q] noise``

in units of the variance of kernels' mean departures; those of different kernels have none. This is simple
kriging of what a trend leaves (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006,
section 2.7).

Notations:
    n: rows, k: kernels, p: platforms.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.learners.multitask._matern import matern_similarity
from costmodel.learners.sources._distinct import distinct_rows, row_keys


class KernelDepartures:
    """Tables of what was measured, kernels by platforms, NaN where nothing was.

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
