"""Learning from the most similar source tasks only."""

from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Prediction, TaskCurves, prepare, register
from costmodel.transfer._base import Predictor, StorableModel, check_measured
from costmodel.transfer._rank import rank_correlation


@register()
class SimilarSources(StorableModel):
    """A transfer model that is fitted, for each new task, to the k source tasks most like it.

    Without measurements tasks are alike as their descriptors are (``TaskCurves.distances``). With m of them
    the similarity of a source is ``(m rho + doubt (1 - d / d_max)) / (m + doubt)``: d is that distance and
    rho the rank correlation between the measurements and what the source says of the same configs, or of the
    nearest that it has measured. Ties go to the first task.

    Args:
        model: The model; it is copied for each choice of sources, and never fitted itself.
        task_columns: Positions of the columns that describe the task.
        k: Source tasks to learn from; all of them if there are fewer.
        doubt: Measurements that the descriptors count as.
    """

    def __init__(
        self, model: StorableModel, task_columns: tuple[int, ...], *, k: int = 8, doubt: float = 8.0
    ) -> None:
        self.model = model
        self.task_columns = task_columns
        self.k = k
        self.doubt = doubt

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        _, codes = np.unique(task_ids, return_inverse=True)
        prepare(X, y, task_ids)  # refuses what cannot be learned from
        self.X_, self.y_, self.tasks_ = X, y, codes
        return self._index()

    def predict(self, X: FloatArray) -> Prediction:
        """The prediction of a model of the sources nearest to each row's task."""
        similarity = self._by_distance(X)
        chosen = np.sort(np.argsort(-similarity, axis=1, kind="stable")[:, : self.k], axis=1)
        choices, choice = np.unique(chosen, axis=0, return_inverse=True)
        score, latency_s = np.empty(len(X)), np.full(len(X), np.nan)
        for number, sources in enumerate(choices):
            at = choice.ravel() == number
            found = self._fitted(sources).predict(X[at])
            score[at] = found.score
            latency_s[at] = np.nan if found.latency_s is None else found.latency_s
        return Prediction(score, None if np.isnan(latency_s).any() else latency_s)

    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        """The adaptation of a model of the sources that agree with the measurements."""
        check_measured(X, y)
        similarity = self.similarity(X, y)
        return self._fitted(np.sort(np.argsort(-similarity, kind="stable")[: self.k])).adapt(X, y)

    def similarity(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """``(t,)`` similarity of each source task to the one measured; higher is more alike."""
        says = self._curves.log_scores(X)
        agreement = np.array([rank_correlation(column, -y) for column in says.T])
        return np.asarray(
            (len(y) * agreement + self.doubt * self._by_distance(X[:1])[0]) / (len(y) + self.doubt)
        )

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"X": self.X_, "y": self.y_, "tasks": self.tasks_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.X_, self.y_, self.tasks_ = state["X"], state["y"], state["tasks"]
        return self._index()

    def _index(self) -> Self:
        self._curves = TaskCurves(self.task_columns, 3).fit(prepare(self.X_, self.y_, self.tasks_))
        return self

    def _by_distance(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` similarity by descriptors, 1 for an equal task, 0 for the farthest."""
        distances = self._curves.distances(X)
        farthest = np.where(np.isfinite(distances), distances, 0.0).max(axis=1, keepdims=True)
        return np.asarray(1.0 - np.minimum(distances / np.maximum(farthest, 1e-12), 1.0))

    def _fitted(self, sources: NDArray[np.intp]) -> StorableModel:
        """A copy of the model, fitted to these source tasks."""
        at = np.isin(self.tasks_, sources)
        if not np.isfinite(self.y_[at]).any():
            at = np.ones(len(at), dtype=bool)
        return deepcopy(self.model).fit(self.X_[at], self.y_[at], self.tasks_[at])
