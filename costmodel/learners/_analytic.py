"""The analytic learner: latency as a weighted sum of the analytic times of a kernel's parts."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import check_features, lower_bound, prepare


@register("analytic")
class AnalyticPrior(Learner):
    """Latency as a non-negative combination of analytic component times.

    ``latency = max(bound, sum over r of w_r t_r + w_bound bound + w_0 launches)`` seconds: the components t_r
    are what arithmetic, traffic and waiting would each take if nothing else limited the kernel (the roofline
    of Williams, Waterman and Patterson, CACM 52(4), 2009, and the waves of blocks over SMs), the weights say
    how much of each is not hidden behind the others. All weights are at least 0, so that the prediction
    falls with more SMs or bandwidth wherever the components do. It works on a device that nobody measured,
    even without ``fit``: then all times weigh 1 and a launch costs ``launch_s``.

    ``fit`` solves the non-negative least squares (Lawson and Hanson, "Solving Least Squares Problems", 1974)
    of relative errors over the configs that ran: each row is divided by its latency.

    Args:
        bound_column: Position of a column with log2 of a lower bound in seconds, NaN where unknown.
        component_columns: Positions of columns with log2 of a component time over that bound; one that is
            not known (NaN) counts as 0.
        launches_column: Position of the column with the number of launches; None takes one for each row.
        launch_s: Seconds of a launch before ``fit``.
    """

    weights_: FloatArray | None = None
    width_: int | None = None

    def __init__(
        self,
        bound_column: int,
        component_columns: tuple[int, ...],
        launches_column: int | None = None,
        *,
        launch_s: float = 2e-6,
    ) -> None:
        self.bound_column = bound_column
        self.component_columns = component_columns
        self.launches_column = launches_column
        self.launch_s = launch_s

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(
            position(columns, "lower_bound"),
            positions(columns, tags=("component_time",)),
            position(columns, "launches"),
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Solve for the weights of the components, the bound and the launches."""
        from scipy.optimize import nnls

        training = prepare(X, y, task_ids)
        ran = np.isfinite(training.log_latency)
        self.width_ = X.shape[1]
        relative = self._times(training.X[ran]) / np.exp(training.log_latency[ran])[:, None]
        # Columns of one length: seconds of a launch and of a component differ by orders of magnitude.
        length = np.maximum(np.linalg.norm(relative, axis=0), np.finfo(np.float64).tiny)
        weights, _ = nnls(relative / length, np.ones(len(relative)))
        self.weights_ = np.asarray(weights / length)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        check_features(X, X.shape[-1] if self.width_ is None else self.width_)
        times = self._times(X)
        weights = np.append(np.ones(times.shape[1] - 1), self.launch_s)
        if self.weights_ is not None:
            weights = self.weights_
        bound_s = np.exp(lower_bound(X, self.bound_column))
        latency_s = np.maximum(bound_s, (times * weights).sum(axis=1))
        return Prediction(-np.log(latency_s), latency_s)

    def state(self) -> dict[str, Any]:
        """Learned state; empty before ``fit``."""
        return {} if self.weights_ is None else {"weights": self.weights_, "width": self.width_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored, self.weights_, self.width_ = StoredState(state), None, None
        if "weights" in stored:
            self.width_ = stored.count("width")
            self.weights_ = stored.floats("weights", len(self.component_columns) + 2)
        return self

    def _times(self, X: FloatArray) -> FloatArray:
        """``(n, r + 2)`` seconds of each component and of the bound, and the number of launches."""
        bound_s = np.exp(lower_bound(X, self.bound_column))
        components = np.nan_to_num(np.exp2(X[:, list(self.component_columns)])) * bound_s[:, None]
        launches = (
            np.ones(len(X)) if self.launches_column is None else np.nan_to_num(X[:, self.launches_column])
        )
        return np.column_stack([components, bound_s, launches])
