"""The many-sources rule: believe all tasks, the similar ones more."""

from typing import Any, Self

import numpy as np

from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds
from costmodel.learners._curves import TaskCurves
from costmodel.learners._training import prepare


class WeightedConsensus(Learner):
    """Scores a config by the weighted mean of its log scores in the source tasks.

    With equal weights and configs that all tasks share this is the mean of log(best / time) over sources, a
    rule that is hard to beat. Weights fall with the distance between tasks as ``exp(-(distance / bandwidth)^2
    / 2)``.

    Args:
        task_columns: Positions of the columns that describe the task; with none, all tasks weigh the same.
        neighbours: Configs of each source task to average, see ``TaskCurves``.
        bandwidth: Distance, in standard deviations of a column, at which a task counts 0.61 of one at
            distance 0.
    """

    def __init__(self, task_columns: tuple[int, ...], neighbours: int = 3, bandwidth: float = 2.0) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours
        self.bandwidth = bandwidth

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        self.curves_ = TaskCurves(self.task_columns, self.neighbours).fit(prepare(X, y, task_ids))
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Weighted mean log score over source tasks."""
        squared = np.square(self.curves_.distances(X) / self.bandwidth)
        # Relative to the nearest task, so that the weights of a task far from all do not vanish.
        weight = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
        return Prediction((weight * self.curves_.log_scores(X)).sum(axis=1) / weight.sum(axis=1))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return self.curves_.state()

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.curves_ = TaskCurves(self.task_columns, self.neighbours).load_state(state)
        return self
