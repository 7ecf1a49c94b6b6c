"""The many-sources rule: believe all tasks, the similar ones more."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._curves import TaskCurves
from costmodel.learners._registry import register
from costmodel.learners._source_weights import source_weights
from costmodel.learners._training import lower_bound, prepare, task_levels


@register("consensus")
class WeightedConsensus(Learner):
    """Scores a config by the weighted mean of its log scores in the source tasks.

    With equal weights and configs that all tasks share this is the mean of log(best / time) over sources, a
    rule that is hard to beat. Weights fall with the distance between tasks as ``exp(-(distance / bandwidth)^2
    / 2)``. Where source tasks abound, the bandwidth shrinks until about ``sources`` of them count, so that
    the many do not drown the near.

    Latency follows from a lower bound: log latency = log bound + weighted mean over source tasks of log(best
    / bound) - log score.

    Args:
        task_columns: Positions of the columns that describe the task; with none, all tasks weigh the same.
        neighbours: Configs of each source task to average, see ``TaskCurves``.
        bandwidth: Distance, in standard deviations of a column, at which a task counts 0.61 of one at
            distance 0.
        sources: Source tasks that count, about, see ``source_weights``.
        config_columns: Positions of the columns that describe the config, see ``TaskCurves``.
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``;
            without one, no latency is predicted.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        task_columns: tuple[int, ...],
        neighbours: int = 3,
        bandwidth: float = 2.0,
        *,
        sources: int = 8,
        config_columns: tuple[int, ...] | None = None,
        baseline_column: int | None = None,
    ) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.sources = sources
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
        """Weighted mean log score over source tasks, and the latency that follows."""
        first, place = self.curves_.places(X)
        weights = source_weights(self.curves_.distances_at(X[first]), self.bandwidth, self.sources)
        score = self.curves_.mean_log_score(X, weights, place)
        if self.levels_ is None:
            return Prediction(score)
        level = (weights * self.levels_).sum(axis=1)
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
