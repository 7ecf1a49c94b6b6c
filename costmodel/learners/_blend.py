"""Two learners that err in different places."""

from typing import Any, Self

import numpy as np

from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds


class Blend(Learner):
    """Predicts the geometric mean of two latencies.

    Both weigh the same: with few source workloads there is nothing to tell a better weight from.

    Args:
        first: A learner that predicts latencies.
        second: Another one.
    """

    def __init__(self, first: Learner, second: Learner) -> None:
        self.first = first
        self.second = second

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit both."""
        self.first.fit(X, y, task_ids)
        self.second.fit(X, y, task_ids)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score.

        Raises:
            ValueError: A learner predicts no latency.
        """
        latencies = [learner.predict(X).latency_s for learner in (self.first, self.second)]
        if latencies[0] is None or latencies[1] is None:
            raise ValueError(
                "learners to blend must predict latencies, "
                f"but got {type(self.first).__name__} and {type(self.second).__name__}"
            )
        log_latency = 0.5 * (np.log(latencies[0]) + np.log(latencies[1]))
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state of both."""
        return {"first": self.first.state(), "second": self.second.state()}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.first.load_state(state["first"])
        self.second.load_state(state["second"])
        return self
