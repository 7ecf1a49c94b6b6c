"""Intervals for devices that nothing was learned from."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import TransferModel
from costmodel.transfer.models._quantiles import two_sided


class UnseenDevices:
    """Errors of predictions for an architecture that was left out of what was learned from.

    Each architecture is left out in turn: near-twins of one, such as an H100 and an H200, say little of a
    device of another. Of the architectures that were left out the worst counts at each end, as they are few:
    were a new one drawn as those n were, it would be no stranger than the strangest of them with a
    probability of at least (n - 1) / (n + 1). The interval is as wide for all kernels and SM budgets, since
    what widens it elsewhere would be extrapolated to an unseen device too.

    Args:
        device_columns: Positions of the columns that tell devices apart on any number of their SMs.
        architecture_columns: Positions of those that are equal among devices of one architecture.
        level: Share of the measured latencies between the two ends.
    """

    def __init__(
        self,
        device_columns: tuple[int, ...] = (),
        architecture_columns: tuple[int, ...] = (),
        *,
        level: float = 0.9,
    ) -> None:
        self.device_columns = device_columns
        self.architecture_columns = architecture_columns
        self.level = level

    def fit(self, model: TransferModel, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Leave each architecture out; the model is fitted in place, as often as there are architectures.

        Without two architectures there is nothing to calibrate by, and ``quantiles_`` is None.

        Args:
            model: Predicts latencies.
            X: ``(n, d)`` rows.
            y: ``(n,)`` latencies; inf for a config that failed.
            task_ids: ``(n,)`` task of each row.
        """
        self.devices_ = np.unique(_without_nan(X, self.device_columns), axis=0)
        self.quantiles_: FloatArray | None = None
        described = _without_nan(X, self.architecture_columns)
        distinct, architectures = np.unique(described, axis=0, return_inverse=True)
        if len(distinct) < 2:
            return self
        ends = []
        for architecture in range(len(distinct)):
            out, ran = architectures.ravel() == architecture, np.isfinite(y)
            if not (ran & out).any() or not (ran & ~out).any():
                continue
            model.fit(X[~out], y[~out], task_ids[~out])
            predicted = model.predict(X[out & ran]).latency_s
            if predicted is not None:
                ends.append(two_sided(np.log(y[out & ran] / predicted), self.level))
        if len(ends) > 1:
            self.quantiles_ = np.array([min(end[0] for end in ends), max(end[1] for end in ends)])
        return self

    def are_of(self, X: FloatArray) -> NDArray[np.bool_]:
        """``(n,)`` whether a row is of a device that was not learned from."""
        if not self.device_columns:
            return np.zeros(len(X), dtype=np.bool_)
        described, row = np.unique(_without_nan(X, self.device_columns), axis=0, return_inverse=True)
        known = (described[:, None, :] == self.devices_[None, :, :]).all(axis=2).any(axis=1)
        return np.asarray(~known[row.ravel()])

    def state(self) -> dict[str, Any]:
        """Learned state."""
        quantiles = {} if self.quantiles_ is None else {"quantiles": self.quantiles_}
        return {"devices": self.devices_, **quantiles}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.devices_ = stored.floats("devices", "k", len(self.device_columns))
        self.quantiles_ = stored.floats("quantiles", 2) if "quantiles" in stored else None
        return self


def _without_nan(X: FloatArray, columns: tuple[int, ...]) -> FloatArray:
    """``(n, c)`` columns in which what is unknown is 0: NaN would equal no other."""
    return np.asarray(np.nan_to_num(X[:, list(columns)]))
