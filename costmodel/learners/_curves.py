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

    A task says nothing of configs of another space: those that share less than half of the config columns
    that are known of either.

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

        The unit is the root mean square over columns, so that it does not grow with their number. Tasks that
        say nothing of a row are infinitely far; where none says anything, all are equally near.
        """
        check_features(X, self.X_.shape[1])
        rows = self._task_scaler.transform(X[:, self._is_task])
        distances = np.stack([_rms(rows - centre) for centre in self._centres], axis=1)
        distances[~self.comparable(X)] = np.inf
        distances[np.isinf(distances).all(axis=1)] = 0.0
        return distances

    def comparable(self, X: FloatArray) -> NDArray[np.bool_]:
        """``(n, t)`` whether a source task says something of each row's config."""
        patterns, pattern = np.unique(~np.isnan(X[:, ~self._is_task]), axis=0, return_inverse=True)
        both = patterns.astype(np.float64) @ self._present.T
        either = patterns.sum(axis=1, keepdims=True) + self._present.sum(axis=1) - both
        return np.asarray(2.0 * both >= either)[pattern.ravel()]

    def log_scores(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` log score that each source task gives each row's config; 0 where it says nothing."""
        comparable = self.comparable(X)
        scores = np.zeros(comparable.shape)
        for tree in range(len(self._trees)):
            tasks = np.flatnonzero(self._tree_of == tree)
            rows = np.flatnonzero(comparable[:, tasks[0]])
            nearest, weight = self._nearest(tree, X[rows])
            for task in tasks.tolist():
                scores[rows, task] = (weight * self._known(task)[nearest]).sum(axis=1)
        return scores

    def log_score_of(self, task: int, X: FloatArray) -> FloatArray:
        """``(n,)`` log score that one source task gives each row's config."""
        check_features(X, self.X_.shape[1])
        nearest, weight = self._nearest(int(self._tree_of[task]), X)
        return np.asarray((weight * self._known(task)[nearest]).sum(axis=1))

    def _nearest(self, tree: int, X: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """``(n, k)`` positions of the nearest configs in a tree, and their weights, which sum to 1."""
        searched = self._trees[tree]
        rows = self._config_scaler.transform(X[:, ~self._is_task])
        distance, nearest = searched.query(rows, k=np.arange(1, min(self.neighbours, searched.n) + 1))
        # Weights relative to the nearest: 1 for it, and for a repeat of it; next to an exact match others
        # vanish.
        first = np.maximum(distance[:, :1], 1e-12)
        weight = np.square(first / np.maximum(distance, 1e-12))
        return nearest, weight / weight.sum(axis=1, keepdims=True)

    def _known(self, task: int) -> FloatArray:
        """Log scores of a task's configs."""
        return self.log_score_[self._starts[task] : self._starts[task + 1]]

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
        """Build what is derived from the rows: scalers, task centres, and a search tree for equal configs."""
        from scipy.spatial import cKDTree

        self._is_task: NDArray[np.bool_] = np.isin(np.arange(self.X_.shape[1]), self.task_columns)
        self._starts = np.searchsorted(self.tasks_, np.arange(self.tasks_[-1] + 2))
        descriptors = self.X_[self._starts[:-1]][:, self._is_task]
        self._task_scaler = Scaler().fit(descriptors)
        self._centres = self._task_scaler.transform(descriptors)
        configs = self.X_[:, ~self._is_task]
        self._config_scaler = Scaler().fit(configs)
        each = [configs[start:end] for start, end in pairwise(self._starts)]
        self._present = np.array([~np.isnan(rows).all(axis=0) for rows in each], dtype=np.float64)
        distinct: dict[bytes, int] = {}
        self._tree_of = np.array([distinct.setdefault(rows.tobytes(), len(distinct)) for rows in each])
        firsts = [each[int(np.flatnonzero(self._tree_of == tree)[0])] for tree in range(len(distinct))]
        self._trees = [cKDTree(self._config_scaler.transform(rows)) for rows in firsts]
        return self


def _rms(differences: FloatArray) -> FloatArray:
    """``(n,)`` root mean square of ``(n, c)`` differences; 0 without columns."""
    return np.asarray(np.sqrt(np.square(differences).sum(axis=1) / max(1, differences.shape[1])))
