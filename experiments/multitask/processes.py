"""Source tasks and a new one as a transfer model: coregionalised processes, or one for it alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.benchmark.entries._coregionalisation import Processes, Settings
from costmodel.learners import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.learners._source_rules import source_weights
from costmodel.transfer import TransferModel


class JoinedTask(TransferModel):
    """Source tasks and a new one by coregionalised processes, or the new one alone.

    Args:
        task_columns: Positions of the columns that describe the task.
        alone: Whether the sources only tell the scale of the columns.
        seed: Seed of what is proposed where nothing is known.
    """

    def __init__(self, task_columns: tuple[int, ...], *, alone: bool, seed: int = 0) -> None:
        self.task_columns, self.alone, self.seed = task_columns, alone, seed
        self.settings = Settings()

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Remember the sources, and learn from them unless it is to be alone."""
        self.is_task = np.isin(np.arange(X.shape[1]), self.task_columns)
        self.scaler = Scaler().fit(X[:, ~self.is_task])
        _, self.tasks = np.unique(task_ids, return_inverse=True)
        self.Z, self.values = self.scaler.transform(X[:, ~self.is_task]), np.log(y)
        first = np.unique(self.tasks, return_index=True)[1]
        self.task_scaler = Scaler().fit(X[first][:, self.is_task])
        self.centres = self.task_scaler.transform(X[first][:, self.is_task])
        self.known = None if self.alone else Processes(self.Z, self.values, self.tasks, self.settings)
        self.parameters: FloatArray | None = None
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Posterior means of the sources, weighed by how near their descriptors are; at random if alone."""
        if self.known is None:
            return Prediction(np.random.default_rng(self.seed).normal(size=len(X)))
        place = self.task_scaler.transform(X[:1, self.is_task])
        distances = np.sqrt(np.square(self.centres - place).mean(axis=1))
        weights = source_weights(distances[None], 2.0, 4)[0]
        Z = self.scaler.transform(X[:, ~self.is_task])
        return Prediction(-sum(w * self.known.mean(Z, t) for t, w in enumerate(weights) if w > 1e-6))

    def adapt(self, X: FloatArray, y: FloatArray) -> "AdaptedTask":
        """What all tasks tell; hyperparameters are learned again after 1, 2, 4, 8, ... measurements."""
        Z, values, task = self.scaler.transform(X[:, ~self.is_task]), np.log(y), 0
        tasks = np.zeros(len(y), dtype=np.intp)
        if not self.alone:
            task = int(self.tasks.max()) + 1
            Z, values = np.vstack([self.Z, Z]), np.append(self.values, values)
            tasks = np.append(self.tasks, np.full(len(y), task))
        learn = len(y) & (len(y) - 1) == 0
        fitted = Processes(Z, values, tasks, self.settings, self.parameters, learn=learn)
        self.parameters = fitted.parameters
        return AdaptedTask(fitted, task, lambda rows: self.scaler.transform(rows[:, ~self.is_task]))


@dataclass(frozen=True)
class AdaptedTask:
    """Processes that have seen measurements of the task."""

    processes: Processes
    task: int
    inputs: Callable[[FloatArray], FloatArray]

    def predict(self, X: FloatArray) -> Prediction:
        """Posterior mean."""
        mean = self.processes.mean(self.inputs(X), self.task)
        return Prediction(-mean, np.exp(mean))

    def std(self, X: FloatArray) -> FloatArray:
        """Standard deviation of log latencies."""
        return np.sqrt(np.maximum(np.diag(self.posterior(X)[1]), 0.0))

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of log latencies."""
        return self.processes.posterior(self.inputs(X), self.task)
