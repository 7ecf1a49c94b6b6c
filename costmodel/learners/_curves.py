"""What each source task says of configs that it never saw: interpolation between those it saw."""

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.learners._base import FloatArray
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import Training, check_features


class TaskCurves:
    """Source tasks side by side: where each lies, and its log score as a function of the config.

    Columns come in two kinds: those that describe the task, constant within it, and the others, which
    describe the config. A task's log score at a config is the mean of its ``neighbours`` nearest configs,
    weighted by 1 / distance^2 (Shepard, "A two-dimensional interpolation function for irregularly-spaced
    data", 1968) over standardised config columns. A config that the task has measured gets exactly its own
    log score: where all tasks share their configs, as when one kernel is measured on many devices, nothing is
    interpolated.

    Notations:
        t: source tasks. n: query rows.

    Args:
        task_columns: Positions of the columns that describe the task.
        neighbours: Configs to average.
    """

    def __init__(self, task_columns: tuple[int, ...], neighbours: int) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours

    def fit(self, training: Training) -> Self:
        """Remember the training rows."""
        self.X_, self.log_score_, self.tasks_ = training.X, training.log_score, training.tasks
        return self._index()

    def distances(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` distance between the row's task and each source task, over standardised task columns.

        The unit is the root mean square over columns, so that it does not grow with their number.
        """
        check_features(X, self.X_.shape[1])
        rows = self._task_scaler.transform(X[:, self._is_task])
        return np.stack([_rms(rows - centre) for centre in self._centres], axis=1)

    def log_scores(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` log score that each source task gives each row's config."""
        return np.stack([self.log_score_of(task, X) for task in range(len(self._trees))], axis=1)

    def log_score_of(self, task: int, X: FloatArray) -> FloatArray:
        """``(n,)`` log score that one source task gives each row's config."""
        check_features(X, self.X_.shape[1])
        tree, known = self._trees[task]
        rows = self._config_scaler.transform(X[:, ~self._is_task])
        distance, nearest = tree.query(rows, k=np.arange(1, min(self.neighbours, known.size) + 1))
        # Weights relative to the nearest: 1 for it, and for a repeat of it; next to an exact match others
        # vanish.
        first = np.maximum(distance[:, :1], 1e-12)
        weight = np.square(first / np.maximum(distance, 1e-12))
        return np.asarray((weight * known[nearest]).sum(axis=1) / weight.sum(axis=1))

    @property
    def centres(self) -> FloatArray:
        """``(t, c)`` standardised task columns of each source task."""
        return self._centres

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"X": self.X_, "log_score": self.log_score_, "tasks": self.tasks_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.X_, self.log_score_, self.tasks_ = state["X"], state["log_score"], state["tasks"]
        return self._index()

    def _index(self) -> Self:
        """Build what is derived from the rows: scalers, task centres and a search tree for each task."""
        from scipy.spatial import cKDTree

        self._is_task: NDArray[np.bool_] = np.isin(np.arange(self.X_.shape[1]), self.task_columns)
        starts = np.searchsorted(self.tasks_, np.arange(self.tasks_[-1] + 2))
        descriptors = self.X_[starts[:-1]][:, self._is_task]
        self._task_scaler = Scaler().fit(descriptors)
        self._centres = self._task_scaler.transform(descriptors)
        self._config_scaler = Scaler().fit(self.X_[:, ~self._is_task])
        configs = self._config_scaler.transform(self.X_[:, ~self._is_task])
        self._trees = [
            (cKDTree(configs[start:end]), self.log_score_[start:end]) for start, end in pairwise(starts)
        ]
        return self


def _rms(differences: FloatArray) -> FloatArray:
    """``(n,)`` root mean square of ``(n, c)`` differences; 0 without columns."""
    return np.asarray(np.sqrt(np.square(differences).sum(axis=1) / max(1, differences.shape[1])))
