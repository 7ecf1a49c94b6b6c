"""Rules for a new task that were tried, and which nothing else of the project uses."""

from copy import copy, deepcopy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Learner, Prediction, prepare
from costmodel.learners._curves import TaskCurves
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import first_rows
from costmodel.transfer import StorableModel, TransferModel
from costmodel.transfer._base import Predictor
from costmodel.transfer._plan import rank_correlation

BEST = 3  # configs of a source whose mean is its optimum: one alone is a draw among near-equals


class Pooled(TransferModel):
    """A learner that learns anew from the sources and the new task's measurements, as one task more.

    Args:
        learner: The learner.
        copies: How often each measurement of the new task counts, against one source row each.
    """

    def __init__(self, learner: Learner, *, copies: int = 10) -> None:
        self.learner, self.copies = learner, copies

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit the learner to the sources, and remember these."""
        self.learner.fit(X, y, task_ids)
        self.known = X, y, np.unique(task_ids, return_inverse=True)[1]
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The learner's prediction from the sources alone."""
        return self.learner.predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Learner:
        """The learner, fitted to sources and target."""
        joined = np.repeat(np.arange(len(y)), self.copies)
        known, latency_s, tasks = self.known
        task = np.full(joined.size, tasks.max() + 1)
        return copy(self.learner).fit(
            np.vstack([known, X[joined]]), np.append(latency_s, y[joined]), np.append(tasks, task)
        )


class PredictedOptimum(Learner):
    """Scores a config by how near it is to the optimum that is predicted for its task.

    As GPTune's ``tla1.py`` does, the optima of the source tasks are regressed on the parameters of the tasks,
    each column of the config by itself; here by ridge regression, and configs are ranked by their distance to
    the predicted optimum over standardised columns. The score is the log score that source tasks have at such
    a distance from their optima, so that it can be weighed against measurements.

    Args:
        task_columns: Positions of the columns that describe the task.
        alpha: Penalty on the regression's squared weights, relative to the number of source tasks.
    """

    def __init__(self, task_columns: tuple[int, ...], *, alpha: float = 0.1) -> None:
        self.task_columns, self.alpha = task_columns, alpha

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Regress the optima, and learn how the score falls with the distance to them."""
        training = prepare(X, y, task_ids)
        tasks, configs = self._split(training.X)
        self.task_scaler, self.config_scaler = Scaler().fit(tasks), Scaler().fit(configs)
        starts = first_rows(training)
        Z = self.config_scaler.transform(configs)
        optima = []
        for task, start in enumerate(starts):
            of_task = training.log_score[training.tasks == task]
            optima.append(Z[start + np.argsort(-of_task, kind="stable")[:BEST]].mean(axis=0))
        T = self.task_scaler.transform(tasks[starts])
        design = np.column_stack([T, np.ones(len(T))])
        penalty = self.alpha * len(T) * np.diag([*np.ones(T.shape[1]), 1e-9])
        self.weights = np.linalg.solve(design.T @ design + penalty, design.T @ np.array(optima))
        distance = self._distance(training.X)
        falls = float(-(distance @ training.log_score) / max(float(distance @ distance), 1e-12))
        self.falls = max(falls, 1e-6)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Minus the distance to the predicted optimum, in log score."""
        return Prediction(-self.falls * self._distance(X))

    def state(self) -> dict[str, object]:
        """It is stored nowhere."""
        raise NotImplementedError

    def load_state(self, state: dict[str, object]) -> Self:
        """It is stored nowhere."""
        raise NotImplementedError

    def _distance(self, X: FloatArray) -> FloatArray:
        """``(n,)`` root mean square distance to the predicted optimum of each row's task."""
        tasks, configs = self._split(X)
        optimum = self.task_scaler.transform(tasks) @ self.weights[:-1] + self.weights[-1]
        apart = np.square(self.config_scaler.transform(configs) - optimum).sum(axis=1)
        return np.asarray(np.sqrt(apart / self.config_scaler.varying))

    def _split(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Task columns and config columns."""
        is_task = np.isin(np.arange(X.shape[1]), self.task_columns)
        return X[:, is_task], X[:, ~is_task]


class SimilarSources(TransferModel):
    """A transfer model that is fitted, for each new task, to the k source tasks most like it.

    Without measurements tasks are alike as their descriptors are (``TaskCurves.distances_at``). With m of
    them the similarity of a source is ``(m rho + doubt (1 - d / d_max)) / (m + doubt)``: d is that distance
    and rho the rank correlation between the measurements and what the source says of the same configs, or of
    the nearest that it has measured.

    Args:
        model: The model; it is copied for each choice of sources, and never fitted itself.
        task_columns: Positions of the columns that describe the task.
        k: Source tasks to learn from.
        doubt: Measurements that the descriptors count as.
    """

    def __init__(
        self, model: StorableModel, task_columns: tuple[int, ...], *, k: int = 2, doubt: float = 8.0
    ) -> None:
        self.model, self.task_columns, self.k, self.doubt = model, task_columns, k, doubt

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the source tasks."""
        self.known = X, y, np.unique(task_ids, return_inverse=True)[1]
        self.curves = TaskCurves(self.task_columns, 3).fit(prepare(X, y, task_ids))
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The prediction of a model of the nearest sources of the first row's task."""
        return self._fitted(self._by_distance(X)).predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        """The adaptation of a model of the sources that agree with the measurements."""
        says = self.curves.log_scores(X)
        agreement = np.array([rank_correlation(column, -y) for column in says.T])
        similarity = (len(y) * agreement + self.doubt * self._by_distance(X)) / (len(y) + self.doubt)
        return self._fitted(similarity).adapt(X, y)

    def _by_distance(self, X: FloatArray) -> FloatArray:
        """``(t,)`` similarity by descriptors, 1 for an equal task, 0 for the farthest."""
        distances = self.curves.distances_at(X[:1])[0]
        farthest = np.where(np.isfinite(distances), distances, 0.0).max()
        return np.asarray(1.0 - np.minimum(distances / max(farthest, 1e-12), 1.0))

    def _fitted(self, similarity: FloatArray) -> StorableModel:
        """A copy of the model, fitted to the most similar sources."""
        X, y, tasks = self.known
        chosen: NDArray[np.intp] = np.argsort(-similarity, kind="stable")[: self.k]
        at = np.isin(tasks, chosen)
        return deepcopy(self.model).fit(X[at], y[at], tasks[at])
