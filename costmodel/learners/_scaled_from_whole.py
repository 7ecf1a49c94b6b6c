"""A kernel that was measured on the whole device, on a part of it."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import row_keys
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import LOWEST_LOG_SCORE, Training, check_features, prepare
from costmodel.learners.trees._boosted_trees import XGBoostLearner


@register("scaled-from-whole")
class ScaledFromWhole(Learner):
    """Latency on fewer SMs: that of the same kernel on most SMs, times how such kernels scale.

    How a kernel of one workload scales is much like how one of another does, while how long it takes is not:
    a kernel that is known on the whole device is better predicted from there than from other kernels. Its
    reference is what was measured of it with most SMs; what was measured twice counts by its mean log.
    Kernels without one are left to another learner. One that failed there counts as
    ``-LOWEST_LOG_SCORE`` slower than that learner says.

    Args:
        unmeasured: Predicts latencies of kernels that were never measured.
        scaling: Predicts latency / latency with most SMs, from a row's columns, their differences from those
            of the reference, and the log of its latency.
        kernel_columns: Positions of the columns by which a kernel on a device is known again, on any number
            of its SMs: those that tell workloads, configs and devices apart and know no SMs.
        budget_column: Position of a column that grows with the SMs granted.
    """

    def __init__(
        self, unmeasured: Learner, scaling: Learner, kernel_columns: tuple[int, ...], budget_column: int
    ) -> None:
        self.unmeasured = unmeasured
        self.scaling = scaling
        self.kernel_columns = kernel_columns
        self.budget_column = budget_column

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(
            XGBoostLearner.for_columns(columns, seed),
            XGBoostLearner(seed=seed, rounds=300, depth=7, learning_rate=0.08),
            positions(columns, "workload", "config", tags=("any_sms",)),
            position(columns, "sms"),
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn latencies, and how kernels that were measured with more SMs scale down."""
        training = prepare(X, y, task_ids)
        self.unmeasured.fit(X, y, task_ids)
        self._remember(*self._references(training))
        place = self._places(training.X)
        below = self._budget(training.X) < self._budget(self.references_)[place]
        taken = below & np.isfinite(training.log_latency) & np.isfinite(self.log_latency_[place])
        self.scales_ = bool(taken.any())
        if self.scales_:
            rows, at = training.X[taken], place[taken]
            ratio = np.exp(training.log_latency[taken] - self.log_latency_[at])
            self.scaling.fit(self._seen(rows, at), ratio, training.tasks[taken])
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score.

        Raises:
            ValueError: The learner of kernels that were never measured predicts no latency.
        """
        check_features(X, self.references_.shape[1])
        unmeasured = self.unmeasured.predict(X).latency_s
        if unmeasured is None:
            raise ValueError("unmeasured must predict latencies, but it predicts scores alone")
        log_latency, place = np.log(unmeasured), self._places(X)
        failed = (place >= 0) & np.isinf(self.log_latency_[place])
        log_latency[failed] -= LOWEST_LOG_SCORE
        known = (place >= 0) & ~failed
        log_latency[known] = self.log_latency_[place[known]]
        below = known & (self._budget(X) < self._budget(self.references_)[place])
        if self.scales_ and below.any():
            ratio = self.scaling.predict(self._seen(X[below], place[below])).latency_s
            assert ratio is not None
            log_latency[below] += np.log(ratio)
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "unmeasured": self.unmeasured.state(),
            "scaling": self.scaling.state() if self.scales_ else {},
            "references": self.references_,
            "log_latency": self.log_latency_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.unmeasured.load_state(stored.part("unmeasured"))
        scaling = stored.part("scaling")
        self.scales_ = bool(scaling)
        if self.scales_:
            self.scaling.load_state(scaling)
        references = stored.floats("references", "kernels", "d", missing=True, infinite=True)
        self._remember(references, stored.floats("log_latency", "kernels", infinite=True))
        return self

    def _references(self, training: Training) -> tuple[FloatArray, FloatArray]:
        """Row and log latency of each kernel with most SMs."""
        budgets = self._budget(training.X)
        found: dict[bytes, list[int]] = {}
        for row, key in enumerate(self._keys(training.X)):
            rows = found.setdefault(key, [row])
            if budgets[row] > budgets[rows[0]]:
                found[key] = [row]
            elif budgets[row] == budgets[rows[0]] and row != rows[0]:
                rows.append(row)
        first = np.array([rows[0] for rows in found.values()])
        means = np.array([training.log_latency[rows].mean() for rows in found.values()])
        return training.X[first], means

    def _remember(self, references: FloatArray, log_latency: FloatArray) -> None:
        self.references_, self.log_latency_ = references, log_latency
        self._place_of = {key: place for place, key in enumerate(self._keys(references))}

    def _places(self, X: FloatArray) -> NDArray[np.intp]:
        """``(n,)`` place of each row's reference; -1 for none."""
        return np.array([self._place_of.get(key, -1) for key in self._keys(X)], dtype=np.intp)

    def _keys(self, X: FloatArray) -> list[bytes]:
        return row_keys(X[:, list(self.kernel_columns)])

    def _budget(self, X: FloatArray) -> FloatArray:
        return X[:, self.budget_column]

    def _seen(self, X: FloatArray, place: NDArray[np.intp]) -> FloatArray:
        """Return the columns that ``scaling`` sees of rows that have a reference."""
        return np.column_stack([X, X - self.references_[place], self.log_latency_[place]])
