"""Ridge regression."""

from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._scaler import Scaler
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import check_features, prepare


@register("ridge")
class RidgeLearner(Learner):
    """Ridge regression of log score and of log latency on standardised features.

    Args:
        alpha: Penalty on the squared weights, relative to the number of rows.
    """

    def __init__(self, alpha: float = 1e-3) -> None:
        self.alpha = alpha

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Solve the normal equations, for the score over all rows and for the latency over those that ran."""
        training = prepare(X, y, task_ids)
        self.scaler_ = Scaler().fit(training.X)
        Z = self.scaler_.transform(training.X)
        ran = np.isfinite(training.log_latency)
        self.score_weights_ = _ridge(Z, training.log_score, self.alpha)
        self.latency_weights_ = _ridge(Z[ran], training.log_latency[ran], self.alpha)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Log score and latency."""
        check_features(X, self.scaler_.mean_.size)
        Z = self.scaler_.transform(X)
        log_latency = _apply(self.latency_weights_, Z)
        return Prediction(_apply(self.score_weights_, Z), np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "scaler": self.scaler_.state(),
            "score_weights": self.score_weights_,
            "latency_weights": self.latency_weights_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.scaler_ = Scaler().load_state(state["scaler"])
        stored, weights = StoredState(state), self.scaler_.mean_.size + 1
        self.score_weights_ = stored.floats("score_weights", weights)
        self.latency_weights_ = stored.floats("latency_weights", weights)
        return self


def _ridge(Z: FloatArray, values: FloatArray, alpha: float) -> FloatArray:
    """``(d + 1,)`` weights and, last, the unpenalised intercept."""
    centre, mean = Z.mean(axis=0), values.mean()
    centred = Z - centre
    gram = centred.T @ centred + alpha * len(Z) * np.eye(Z.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (values - mean))
    return np.append(weights, mean - centre @ weights)


def _apply(weights: FloatArray, Z: FloatArray) -> FloatArray:
    return np.asarray(Z @ weights[:-1] + weights[-1])
