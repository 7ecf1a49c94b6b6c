"""What rules that remember source tasks share: curves, and the best latency of each above its bound."""

from collections.abc import Sequence
from typing import Any, Self

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import prepare, task_levels
from costmodel.learners.sources._curves import TaskCurves


class SourceTasks(Learner):
    """Remembers the source tasks; what they say of a config is for others.

    Args:
        task_columns: Positions of the columns that describe the task.
        neighbours: Configs of each source task to average, see ``TaskCurves``.
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
        tasks = positions(columns, "workload", "platform")
        return cls(tasks, baseline_column=position(columns, "lower_bound"))

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        training = prepare(X, y, task_ids)
        self.curves_ = self._curves().fit(training)
        self.levels_ = task_levels(training, self.baseline_column)
        return self

    def state(self) -> dict[str, Any]:
        """Learned state."""
        levels = {} if self.levels_ is None else {"levels": self.levels_}
        return {"curves": self.curves_.state(), **levels}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.curves_ = self._curves().load_state(stored.part("curves"))
        tasks = len(self.curves_.centres_)
        self.levels_ = stored.floats("levels", tasks) if "levels" in stored else None
        return self

    def _curves(self) -> TaskCurves:
        return TaskCurves(self.task_columns, self.neighbours, self.config_columns)
