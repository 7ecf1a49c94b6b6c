"""The one-source rule: believe the most similar task."""

from typing import Any, Self

import numpy as np

from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds
from costmodel.learners._curves import TaskCurves
from costmodel.learners._training import prepare


class NearestTask(Learner):
    """Scores a config as the nearest source task does.

    Nearness is over standardised task columns; of tasks equally near, the first by id is taken. Within the
    task, see ``TaskCurves``.

    Args:
        task_columns: Positions of the columns that describe the task.
        neighbours: Configs of the source task to average.
    """

    def __init__(self, task_columns: tuple[int, ...], neighbours: int = 3) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        self.curves_ = TaskCurves(self.task_columns, self.neighbours).fit(prepare(X, y, task_ids))
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Log score in the nearest source task."""
        nearest = self.curves_.distances(X).argmin(axis=1)
        score = np.empty(len(X))
        for task in np.unique(nearest):
            rows = nearest == task
            score[rows] = self.curves_.log_score_of(int(task), X[rows])
        return Prediction(score)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return self.curves_.state()

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.curves_ = TaskCurves(self.task_columns, self.neighbours).load_state(state)
        return self
