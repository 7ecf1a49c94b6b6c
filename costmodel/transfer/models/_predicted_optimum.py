"""Where the best config of a new task lies, foretold from where it lies in the source tasks."""

from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Learner, Prediction, Scaler, check_features, first_rows, prepare, register

# Configs of a source task whose mean is its optimum: one alone is a draw among near-equals.
_BEST = 3


@register()
class PredictedOptimum(Learner):
    """Scores a config by how near it is to the optimum that is predicted for its task.

    This is the transfer learning autotuner TLA2 of GPTune (Liu et al., PPoPP 2021, section 5): the optima of
    the source tasks are regressed on the parameters of the tasks. Here each config column of the optimum is a
    ridge regression on the task columns, and candidates are ranked by their distance to it, over standardised
    config columns. The score is the log score that source tasks have at such a distance from their optima, so
    that ``Residual(PredictedOptimum(...))`` can weigh it against measurements.

    Args:
        task_columns: Positions of the columns that describe the task.
        alpha: Penalty on the regression's squared weights, relative to the number of source tasks.
    """

    def __init__(self, task_columns: tuple[int, ...], *, alpha: float = 0.1) -> None:
        self.task_columns = task_columns
        self.alpha = alpha

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Regress the optima, and learn how the score falls with the distance to them."""
        training = prepare(X, y, task_ids)
        self.width_ = X.shape[1]
        tasks, configs = self._split(training.X)
        self.task_scaler_, self.config_scaler_ = Scaler().fit(tasks), Scaler().fit(configs)
        starts = first_rows(training)
        Z = self.config_scaler_.transform(configs)
        optima = []
        for task, start in enumerate(starts):
            of_task = training.log_score[training.tasks == task]
            optima.append(Z[start + np.argsort(-of_task, kind="stable")[:_BEST]].mean(axis=0))
        T = self.task_scaler_.transform(tasks[starts])
        design = np.column_stack([T, np.ones(len(T))])
        penalty = self.alpha * len(T) * np.diag([*np.ones(T.shape[1]), 1e-9])
        self.weights_ = np.linalg.solve(design.T @ design + penalty, design.T @ np.array(optima))
        distance = self._distance(training.X)
        falls = float(-(distance @ training.log_score) / max(float(distance @ distance), 1e-12))
        self.falls_ = max(falls, 1e-6)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Minus the distance to the predicted optimum, in log score."""
        return Prediction(-self.falls_ * self._distance(X))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "task_scaler": self.task_scaler_.state(),
            "config_scaler": self.config_scaler_.state(),
            "weights": self.weights_,
            "falls": self.falls_,
            "width": self.width_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.task_scaler_ = Scaler().load_state(state["task_scaler"])
        self.config_scaler_ = Scaler().load_state(state["config_scaler"])
        self.weights_, self.falls_, self.width_ = state["weights"], state["falls"], state["width"]
        return self

    def _distance(self, X: FloatArray) -> FloatArray:
        """``(n,)`` root mean square distance to the predicted optimum of each row's task."""
        check_features(X, self.width_)
        tasks, configs = self._split(X)
        T = self.task_scaler_.transform(tasks)
        # Summed row by row: a matrix product may round differently with other rows beside.
        optimum = (T[:, :, None] * self.weights_[:-1]).sum(axis=1) + self.weights_[-1]
        apart = np.square(self.config_scaler_.transform(configs) - optimum).sum(axis=1)
        return np.asarray(np.sqrt(apart / self.config_scaler_.varying))

    def _split(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Task columns and config columns."""
        is_task = np.isin(np.arange(X.shape[1]), self.task_columns)
        return X[:, is_task], X[:, ~is_task]
