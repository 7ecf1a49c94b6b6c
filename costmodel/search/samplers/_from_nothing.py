"""The model of a search that knows nothing: what its own measurements show."""

from typing import Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.search._acquisition import expected_improvement
from costmodel.search._gaussian_process import GaussianProcess
from costmodel.transfer._base import TransferModel, check_measured

_ROWS = 2048  # that are predicted at once
# Candidates whose improvement is worked out, at least, and rows times the square of what is known, at most:
# half a second. Beyond, only the best scores are considered.
_FEWEST, _MOST_WORK = 512, 10**9
_LEAST_STD = 1e-6


class FromNothing(TransferModel):
    """Learn a function from its own measurements alone: which parameters matter, and how.

    Before the first measurement all candidates are equal to it. Failures have no latency to learn from: how
    likely a candidate is to work is learned apart (see ``Feasibility``). So that nothing great is expected
    beside them either, they count as latencies of the median; the worst would bend the whole surface.

    Args:
        X: ``(n, d)`` candidates that show the scale of the features.
    """

    def __init__(self, X: FloatArray) -> None:
        self.scaler = Scaler().fit(X)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn the scale of the features and nothing else."""
        self.scaler = Scaler().fit(X)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Give all candidates the same score."""
        return Prediction(np.zeros(len(X)))

    def adapt(self, X: FloatArray, y: FloatArray) -> "FromNothing | Surrogate":
        """Learn from the measurements that ran."""
        check_measured(X, y)
        ran = np.isfinite(y)
        if not ran.any():
            return self
        log_s = np.log(y[ran])
        process = GaussianProcess.fit_relevance(X[ran], log_s, self.scaler)
        if not ran.all():
            process = process.condition_on(X[~ran], np.full((~ran).sum(), np.median(log_s)))
        return Surrogate(process)


class Surrogate:
    """A Gaussian process of log latency, as a predictor.

    Args:
        process: Predicts the natural log of seconds.
    """

    def __init__(self, process: GaussianProcess) -> None:
        self._process = process

    def predict(self, X: FloatArray) -> Prediction:
        """Predict latency; the score is minus its log."""
        blocks = [self._process.predict_mean(block) for block in _blocks(X)]
        mean = np.concatenate(blocks)
        return Prediction(-mean, np.exp(mean))

    def marginals(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``(n,)`` means and standard deviations of log latency, without a measurement's noise."""
        mean, std = zip(*(self._process.predict(block) for block in _blocks(X)), strict=True)
        return np.concatenate(mean), np.concatenate(std)

    def improvement(self, X: FloatArray, best_s: float) -> FloatArray:
        """Return the ``(k,)`` expected improvement of log latency of the first k rows, the best scores first.

        Args:
            X: ``(n, d)`` candidates, best score first.
            best_s: Best latency so far, in seconds.
        """
        considered = max(_FEWEST, _MOST_WORK // self._process.Z.shape[0] ** 2)
        mean, std = self.marginals(X[:considered])
        return expected_improvement(np.log(best_s) - mean, np.maximum(std, _LEAST_STD))

    def std(self, X: FloatArray) -> FloatArray:
        """Return the ``(n,)`` standard deviation of a measurement's log latency."""
        noise = self._process.nugget * self._process.variance
        return np.asarray(np.sqrt(self.marginals(X)[1] ** 2 + noise))

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean ``(n,)`` and covariance ``(n, n)`` of log latencies."""
        return self._process.predict(X)[0], self._process.covariance(X)


def _blocks(X: FloatArray) -> list[FloatArray]:
    """The rows in blocks, at least one, so that memory is bounded."""
    return np.split(X, range(_ROWS, len(X), _ROWS))
