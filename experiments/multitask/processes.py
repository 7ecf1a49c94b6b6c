"""Coregionalised processes, and one process a task by the same code: kernel, optimiser and restarts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from coregionalisation import Coregionalisation, negative_log_likelihood
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.learners._source_rules import source_weights
from costmodel.transfer import TransferModel


@dataclass(frozen=True)
class Settings:
    """How processes are fitted.

    Attributes:
        latent: Latent processes.
        restarts: Starts of the search for hyperparameters.
        iterations: Steps of L-BFGS at most, from each start.
    """

    latent: int = 2
    restarts: int = 2
    iterations: int = 40


class Processes:
    """Posterior of log latency of t tasks, from all rows at once.

    Args:
        Z: ``(n, e)`` standardised inputs.
        values: ``(n,)`` log latencies.
        tasks: ``(n,)`` number of each row's task, 0 to t - 1.
        start: Hyperparameters to start from, in place of the settings' own starts.
        learn: Whether hyperparameters are learned; else they are those of ``start``.
    """

    def __init__(  # noqa: PLR0913 (the parts of one formula)
        self,
        Z: FloatArray,
        values: FloatArray,
        tasks: NDArray[np.intp],
        settings: Settings,
        start: FloatArray | None = None,
        *,
        learn: bool = True,
    ) -> None:
        self.Z, self.tasks, self.columns = Z, tasks, max(1, int((Z.std(axis=0) > 0).sum()))
        self.levels = np.bincount(tasks, values) / np.bincount(tasks)
        residual = values - self.levels[tasks]
        self.deviation = float(residual.std()) or 1.0
        D = self._squared(Z)
        if learn or start is None:
            starts = [start] if start is not None else _starts(len(self.levels), settings)
            found = [_most_likely(each, D, tasks, residual / self.deviation, settings) for each in starts]
            start = min(found, key=lambda each: each[0])[1]
        self.parameters = start
        self.model = Coregionalisation.unpack(self.parameters, settings.latent)
        self.factor = cho_factor(self.model.covariance(D, tasks), lower=True)
        self.alpha = cho_solve(self.factor, residual / self.deviation)

    def posterior(self, Z: FloatArray, task: int) -> tuple[FloatArray, FloatArray]:
        """Mean ``(m,)`` and covariance ``(m, m)`` of log latencies in a task, without noise."""
        cross, own = self._cross(Z, task), self._own(Z, task)
        covariance = own - cross @ cho_solve(self.factor, cross.T)
        return self.levels[task] + self.deviation * (cross @ self.alpha), self.deviation**2 * covariance

    def mean(self, Z: FloatArray, task: int) -> FloatArray:
        """``(m,)`` posterior mean."""
        return self.levels[task] + self.deviation * (self._cross(Z, task) @ self.alpha)

    def _cross(self, Z: FloatArray, task: int) -> FloatArray:
        correlations = self.model.correlations(self._squared(Z))
        between = [
            a[task] * a[self.tasks] + b[task] * (self.tasks == task)
            for a, b in zip(self.model.mixing, self.model.own, strict=True)
        ]
        return np.asarray(sum(b * c for b, c in zip(between, correlations, strict=True)))

    def _own(self, Z: FloatArray, task: int) -> FloatArray:
        correlations = self.model.correlations(cdist(Z, Z, "sqeuclidean") / self.columns)
        sizes = self.model.mixing[:, task] ** 2 + self.model.own[:, task]
        return np.asarray(sum(size * each for size, each in zip(sizes, correlations, strict=True)))

    def _squared(self, Z: FloatArray) -> FloatArray:
        return np.asarray(cdist(Z, self.Z, "sqeuclidean") / self.columns)


def _starts(tasks: int, settings: Settings) -> list[FloatArray]:
    """Tasks alike, processes of different lengths, a variance of about 1; each start a little apart."""
    q = settings.latent
    return [
        Coregionalisation(
            lengths=np.geomspace(0.5, 2.0, q) * 2.0**-seed if q > 1 else np.ones(1) * 2.0**-seed,
            mixing=np.sqrt(0.7 / q) * (1.0 + 0.1 * np.random.default_rng(seed).normal(size=(q, tasks))),
            own=np.full((q, tasks), 0.2 / q),
            noise=np.full(tasks, 0.1),
        ).pack()
        for seed in range(settings.restarts)
    ]


def _most_likely(
    start: FloatArray, D: FloatArray, tasks: NDArray[np.intp], values: FloatArray, settings: Settings
) -> tuple[float, FloatArray]:
    """Negative log likelihood and hyperparameters where it is least."""
    found = minimize(
        negative_log_likelihood,
        start,
        args=(settings.latent, D, tasks, values),
        jac=True,
        method="L-BFGS-B",
        bounds=[(value - 8.0, value + 8.0) for value in start],
        options={"maxiter": settings.iterations},
    )
    return float(found.fun), np.asarray(found.x)


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
