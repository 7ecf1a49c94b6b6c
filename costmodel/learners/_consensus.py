"""The many-sources rule: believe all tasks, the similar ones more."""

from typing import Any, Self

import numpy as np

from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds
from costmodel.learners._curves import TaskCurves
from costmodel.learners._training import lower_bound, prepare, task_levels


class WeightedConsensus(Learner):
    """Scores a config by the weighted mean of its log scores in the source tasks.

    With equal weights and configs that all tasks share this is the mean of log(best / time) over sources, a
    rule that is hard to beat. Weights fall with the distance between tasks as ``exp(-(distance / bandwidth)^2
    / 2)``.

    Latency follows from a lower bound: log latency = log bound + weighted mean over source tasks of log(best
    / bound) - log score.

    Args:
        task_columns: Positions of the columns that describe the task; with none, all tasks weigh the same.
        neighbours: Configs of each source task to average, see ``TaskCurves``.
        bandwidth: Distance, in standard deviations of a column, at which a task counts 0.61 of one at
            distance 0.
        config_columns: Positions of the columns that describe the config, see ``TaskCurves``.
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``;
            without one, no latency is predicted.
        level_bandwidth: The bandwidth of log(best / bound), which varies more from task to task than ranks
            do.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        task_columns: tuple[int, ...],
        neighbours: int = 3,
        bandwidth: float = 2.0,
        *,
        config_columns: tuple[int, ...] | None = None,
        baseline_column: int | None = None,
        level_bandwidth: float = 0.5,
    ) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.config_columns = config_columns
        self.baseline_column = baseline_column
        self.level_bandwidth = level_bandwidth

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        training = prepare(X, y, task_ids)
        self.curves_ = self._curves().fit(training)
        self.levels_ = task_levels(training, self.baseline_column)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Weighted mean log score over source tasks, and the latency that follows."""
        first, place = self.curves_.places(X)
        distances = self.curves_.distances_at(X[first])
        score = self.curves_.mean_log_score(X, _weights(distances, self.bandwidth), place)
        if self.levels_ is None:
            return Prediction(score)
        level = (_weights(distances, self.level_bandwidth) * self.levels_).sum(axis=1)
        return Prediction(score, np.exp(lower_bound(X, self.baseline_column) + level[place] - score))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        levels = {} if self.levels_ is None else {"levels": self.levels_}
        return {"curves": self.curves_.state(), **levels}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.curves_ = self._curves().load_state(state["curves"])
        self.levels_ = state.get("levels")
        return self

    def _curves(self) -> TaskCurves:
        return TaskCurves(self.task_columns, self.neighbours, self.config_columns)


def _weights(distances: FloatArray, bandwidth: float) -> FloatArray:
    """``(p, t)`` weights of the source tasks, which sum to 1 at each place."""
    squared = np.square(distances / bandwidth)
    # Relative to the nearest task, so that the weights of a task far from all do not vanish.
    weight = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
