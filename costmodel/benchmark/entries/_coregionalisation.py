"""The linear model of coregionalisation: tasks as mixtures of latent Gaussian processes.

The covariance of row i of task s and row j of task t is

``sum over q of (a_qs a_qt + [s = t] b_qs) exp(-d_ij^2 / (2 l_q^2)) + [i = j] v_s``

(GPTune's multitask learning: Liu et al., PPoPP 2021, doi:10.1145/3437801.3441621, section 3.1; Alvarez,
Rosasco and Lawrence, arXiv:1106.6251, section 4.2): ``a_q`` is how much of latent process q each task has, b
what a task has of it for itself, v its noise.

Notations:
    q: latent processes, t: tasks, n: rows, e: inputs.
    D: ``(n, n)`` squared distances between rows.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from costmodel.arrays import FloatArray


@dataclass(frozen=True)
class Coregionalisation:
    """Hyperparameters.

    Attributes:
        lengths: ``(q,)`` lengths of the latent processes, above 0.
        mixing: ``(q, t)`` a.
        own: ``(q, t)`` b, above 0.
        noise: ``(t,)`` v, above 0.
    """

    lengths: FloatArray
    mixing: FloatArray
    own: FloatArray
    noise: FloatArray

    @classmethod
    def unpack(cls, parameters: FloatArray, processes: int) -> Self:
        """From one vector without bounds, see ``pack``."""
        lengths, rest = parameters[:processes], parameters[processes:].reshape(2 * processes + 1, -1)
        own, noise = np.exp(rest[processes:-1]), np.exp(rest[-1])
        return cls(np.exp(lengths), rest[:processes], own, noise)

    def pack(self) -> FloatArray:
        """``(q + (2 q + 1) t,)`` log lengths, mixing, log own, log noise."""
        parts = (np.log(self.lengths), self.mixing, np.log(self.own), np.log(self.noise))
        return np.concatenate([part.ravel() for part in parts])

    def correlations(self, D: FloatArray) -> list[FloatArray]:
        """Correlation of each latent process at these squared distances."""
        return [np.exp(-0.5 * D / length**2) for length in self.lengths]

    def covariance(self, D: FloatArray, tasks: NDArray[np.intp]) -> FloatArray:
        """``(n, n)`` covariance of rows of these tasks, with noise."""
        return self._covariance(self.correlations(D), tasks)

    def _covariance(self, correlations: list[FloatArray], tasks: NDArray[np.intp]) -> FloatArray:
        total = np.diag(self.noise[tasks])
        for between, correlation in zip(self._between_tasks(), correlations, strict=True):
            total += between[np.ix_(tasks, tasks)] * correlation
        return total

    def _between_tasks(self) -> list[FloatArray]:
        """``(t, t)`` covariance between tasks of each latent process."""
        return [np.outer(a, a) + np.diag(b) for a, b in zip(self.mixing, self.own, strict=True)]


def negative_log_likelihood(
    parameters: FloatArray, processes: int, D: FloatArray, tasks: NDArray[np.intp], values: FloatArray
) -> tuple[float, FloatArray]:
    """Negative log marginal likelihood of ``(n,)`` values, and its gradient.

    Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 5.8 and 5.9.
    """
    model = Coregionalisation.unpack(parameters, processes)
    correlations = model.correlations(D)
    factor = cho_factor(model._covariance(correlations, tasks), lower=True)
    inverse = cho_solve(factor, np.eye(len(values)))
    alpha = inverse @ values
    log_determinant = 2.0 * np.log(np.diag(factor[0])).sum()
    value = 0.5 * (values @ alpha + log_determinant + len(values) * np.log(2.0 * np.pi))
    slope = 0.5 * (inverse - np.outer(alpha, alpha))
    return float(value), _gradient(model, slope, correlations, D, tasks)


def _gradient(
    model: Coregionalisation,
    slope: FloatArray,
    correlations: list[FloatArray],
    D: FloatArray,
    tasks: NDArray[np.intp],
) -> FloatArray:
    """Chain rule from ``slope``, the derivative by each covariance, to the parameters as in ``pack``."""
    is_task = np.eye(len(model.noise))[tasks]
    lengths, mixing, own = [], [], []
    for q, (between, correlation) in enumerate(zip(model._between_tasks(), correlations, strict=True)):
        weighted = slope * correlation
        by_task = is_task.T @ weighted @ is_task
        mixing.append(2.0 * by_task @ model.mixing[q])
        own.append(np.diag(by_task) * model.own[q])
        stretch = weighted * between[np.ix_(tasks, tasks)] * D
        lengths.append(stretch.sum() / model.lengths[q] ** 2)
    noise = np.bincount(tasks, np.diag(slope), minlength=len(model.noise)) * model.noise
    return np.concatenate([lengths, *mixing, *own, noise])


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
        return np.asarray(self.levels[task] + self.deviation * (self._cross(Z, task) @ self.alpha))

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
