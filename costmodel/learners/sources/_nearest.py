"""The one-source rule: a config is as good as in the most similar task."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._training import lower_bound
from costmodel.learners.sources._source_tasks import SourceTasks


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
