"""The one-source rule: believe the most similar task."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._curves import TaskCurves
from costmodel.learners._registry import register
from costmodel.learners._training import lower_bound, prepare, task_levels


@register("nearest-task")
class NearestTask(Learner):
    """Scores a config as the nearest source task does.

    Nearness is over standardised task columns; of tasks equally near, the first by id is taken. Within the
    task, see ``TaskCurves``. Its best latency above a lower bound is taken over too: log latency = log bound
    + log(best / bound) of the nearest task - log score.

    Args:
        task_columns: Positions of the columns that describe the task.
        neighbours: Configs of the source task to average.
        config_columns: Positions of the columns that describe the config, see ``TaskCurves``.
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``;
            without one, no latency is predicted.
    """

    def __init__(
        self,
        task_columns: tuple[int, ...],
        neighbours: int = 3,
        *,
        config_columns: tuple[int, ...] | None = None,
        baseline_column: int | None = None,
    ) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours
        self.config_columns = config_columns
        self.baseline_column = baseline_column

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(
            positions(columns, "workload", "platform"), baseline_column=position(columns, "lower_bound")
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        training = prepare(X, y, task_ids)
        self.curves_ = self._curves().fit(training)
        self.levels_ = task_levels(training, self.baseline_column)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Log score in the nearest source task, and the latency that follows."""
        first, place = self.curves_.places(X)
        nearest = self.curves_.distances_at(X[first]).argmin(axis=1)[place]
        score = np.empty(len(X))
        for task in np.unique(nearest):
            rows = nearest == task
            score[rows] = self.curves_.log_score_of(int(task), X[rows])
        if self.levels_ is None:
            return Prediction(score)
        log_latency = lower_bound(X, self.baseline_column) + self.levels_[nearest] - score
        return Prediction(score, np.exp(log_latency))

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
