"""The many-sources rule: the mean over all tasks, the similar ones weighing more."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._training import lower_bound
from costmodel.learners.sources._source_tasks import SourceTasks
from costmodel.learners.sources._source_weights import source_weights


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
