"""The linear model of coregionalisation: tasks as mixtures of latent Gaussian processes.

The covariance of row i of task s and row j of task t is

``sum over q of (a_qs a_qt + [s = t] b_qs) exp(-d_ij^2 / (2 l_q^2)) + [i = j] v_s``

(GPTune's multitask learning: Liu et al., PPoPP 2021, doi:10.1145/3437801.3441621, section 3.1; Alvarez,
Rosasco and Lawrence, arXiv:1106.6251, section 4.2): ``a_q`` is how much of latent process q each task has, b
what a task has of it for itself, v its noise.

Notations:
    q: latent processes, t: tasks, n: rows.
    D: ``(n, n)`` squared distances between rows.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

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
    from scipy.linalg import cho_factor, cho_solve

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
