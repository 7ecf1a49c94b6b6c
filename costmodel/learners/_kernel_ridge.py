"""Kernel ridge regression."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import check_features, lower_bound, prepare


def matern_similarity(Z: FloatArray, known: FloatArray, *, columns: int, length: float) -> FloatArray:
    """``(n, m)`` Matern kernel with smoothness 3/2 between standardised rows, 1 for equal ones.

    ``(1 + r) exp(-r)`` with ``r = sqrt(3) d / length`` and d the root mean square distance over columns
    (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equation 4.17).

    Args:
        Z: ``(n, d)`` rows.
        known: ``(m, d)`` rows to compare them with.
        columns: Columns that vary; the others are 0 in all rows.
        length: Distance, in standard deviations of a column, over which what is learned varies.
    """
    # By one matrix product, an order of magnitude faster than differences one by one. Near 0, where what
    # cancels leaves rounding in d^2, the kernel is 1 - r^2 / 2 and lets through no more than that rounding.
    squared = np.square(Z).sum(axis=1)[:, None] + np.square(known).sum(axis=1) - 2.0 * (Z @ known.T)
    r = np.sqrt(np.maximum(squared, 0.0, out=squared) * (3.0 / columns)) / length
    return np.asarray((1.0 + r) * np.exp(-r))


# Rows that are compared with the landmarks at once: 32 MB for 1,000 of these.
_ROWS = 4096


@register("kernel-ridge")
class KernelRidge(Learner):
    """Kernel ridge regression of latency above a lower bound, on standardised features.

    The kernel is that of ``matern_similarity``. Weights sit on landmarks, rows drawn at random, so that the
    cost grows with the rows and not with their cube (subset of regressors: Rasmussen and Williams, "Gaussian
    Processes for Machine Learning", 2006, equation 8.14). It extrapolates more smoothly than trees, which
    stay at the value of the last leaf, and errs elsewhere than they do.

    The defaults were chosen on the tasks of half of the workloads of an H100 campaign, each workload left out
    in turn. There a Gaussian kernel, weights that favour fast configs and failures left out were worse or no
    better, and lengths from 1 to 2, penalties from 0.03 to 0.1, smoothness 1/2 and 2,000 landmarks made no
    difference beyond noise. The other half then had a mean Score@1 of 0.90, against 0.86 for boosted trees.

    Args:
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``.
        length: Distance, in standard deviations of a column, over which latency varies.
        penalty: Variance of what features do not tell apart / variance of log latency.
        landmarks: Rows that carry weights; all of them if fewer.
        seed: Seed of the landmarks' choice.
    """

    def __init__(
        self,
        baseline_column: int | None = None,
        *,
        length: float = 2.0,
        penalty: float = 0.1,
        landmarks: int = 1000,
        seed: int = 0,
    ) -> None:
        self.baseline_column = baseline_column
        self.length = length
        self.penalty = penalty
        self.landmarks = landmarks
        self.seed = seed

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(position(columns, "lower_bound"), seed=seed)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Solve for the weights of the landmarks."""
        training = prepare(X, y, task_ids)
        above = training.clipped_log_latency - lower_bound(training.X, self.baseline_column)
        self.scaler_ = Scaler().fit(training.X)
        Z = self.scaler_.transform(training.X)
        drawn = np.random.default_rng(self.seed).permutation(len(Z))[: self.landmarks]
        self.landmarks_ = Z[drawn]
        self.mean_ = float(above.mean())
        # The last term keeps landmarks with equal features apart from a singular matrix.
        gram = self.penalty * self._kernel(self.landmarks_) + 1e-9 * len(Z) * np.eye(drawn.size)
        moments = np.zeros(drawn.size)
        for start in range(0, len(Z), _ROWS):
            rows = slice(start, start + _ROWS)
            K = self._kernel(Z[rows])
            gram += K.T @ K
            moments += K.T @ (above[rows] - self.mean_)
        self.weights_ = np.linalg.solve(gram, moments)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        check_features(X, self.scaler_.mean_.size)
        above = np.full(len(X), self.mean_)
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            above[rows] += self._kernel(self.scaler_.transform(X[rows])) @ self.weights_
        log_latency = lower_bound(X, self.baseline_column) + above
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "scaler": self.scaler_.state(),
            "landmarks": self.landmarks_,
            "mean": self.mean_,
            "weights": self.weights_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state["scaler"])
        stored = StoredState(state, {"d": self.scaler_.mean_.size})
        self.landmarks_, self.mean_ = stored.floats("landmarks", "m", "d"), stored.number("mean")
        self.weights_ = stored.floats("weights", "m")
        return self

    def _kernel(self, Z: FloatArray) -> FloatArray:
        """``(n, m)`` similarity of standardised rows to the landmarks."""
        return matern_similarity(Z, self.landmarks_, columns=self.scaler_.varying, length=self.length)
