"""Rules that remember source tasks: the nearest one, or a consensus of all."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position, positions
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._curves import TaskCurves
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import lower_bound, prepare, task_levels


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


def source_weights(distances: FloatArray, bandwidth: float, sources: int) -> FloatArray:
    """``(p, t)`` weights of t source tasks at each of p places, which sum to 1.

    They fall with the distance as ``exp(-(distance / bandwidth)^2 / 2)``. Where more than ``sources`` tasks
    are there, the bandwidth is at most the way from the nearest to the last of these, so that the many do
    not drown the near, and those beyond four times as many weigh nothing, as do tasks infinitely far.

    Args:
        distances: ``(p, t)``, at least one finite in each row.
        bandwidth: Distance at which a task counts 0.61 of one at distance 0.
        sources: Tasks that count, about.
    """
    squared = np.square(distances)
    # Relative to the nearest task, so that the weights of a task far from all do not vanish.
    beyond = squared - squared.min(axis=1, keepdims=True)
    variance = np.full((len(beyond), 1), bandwidth**2)
    if beyond.shape[1] > sources:
        reach = np.partition(beyond, sources - 1, axis=1)[:, sources - 1 : sources]
        variance = np.clip(reach, 1e-12, variance)
    weight = np.exp(-0.5 * beyond / variance)
    if beyond.shape[1] > 4 * sources:
        weight[beyond > np.partition(beyond, 4 * sources - 1, axis=1)[:, 4 * sources - 1 : 4 * sources]] = 0.0
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


@register("consensus")
class WeightedConsensus(SourceTasks):
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
        config_columns: See ``SourceTasks``.
        baseline_column: See ``SourceTasks``.
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
        super().__init__(
            task_columns, neighbours, config_columns=config_columns, baseline_column=baseline_column
        )
        self.bandwidth = bandwidth
        self.sources = sources

    def predict(self, X: FloatArray) -> Prediction:
        """Weighted mean log score over source tasks, and the latency that follows."""
        first, place = self.curves_.places(X)
        weights = source_weights(self.curves_.distances_at(X[first]), self.bandwidth, self.sources)
        score = self.curves_.mean_log_score(X, weights, place)
        if self.levels_ is None:
            return Prediction(score)
        level = (weights * self.levels_).sum(axis=1)
        return Prediction(score, np.exp(lower_bound(X, self.baseline_column) + level[place] - score))


@register("nearest-task")
class NearestTask(SourceTasks):
    """Scores a config as the nearest source task does.

    Nearness is over standardised task columns; of tasks equally near, the first by id is taken. Within the
    task, see ``TaskCurves``. Its best latency above a lower bound is taken over too: log latency = log bound
    + log(best / bound) of the nearest task - log score.

    Args: see ``SourceTasks``.
    """

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
