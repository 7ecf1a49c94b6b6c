"""The transfer contract: knowledge of source tasks, sharpened by a few measurements of a new one.

Notations are those of ``costmodel.learners``.
"""

from abc import ABC, abstractmethod
from typing import Protocol, Self

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Prediction, Storable


class Predictor(Protocol):
    """Anything that scores candidates."""

    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates; higher is better."""
        ...


class TransferModel(ABC):
    """Learns source tasks once, then serves new tasks: zero-shot by ``predict``, few-shot by ``adapt``."""

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn the source tasks; forgets what was known."""

    @abstractmethod
    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates of a task without any measurement of it."""

    @abstractmethod
    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        """Predictor for one new task, given its first measurements; this model stays as it is.

        Args:
            X: ``(m, d)`` measured candidates of the task, m >= 1.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        """

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        """Predictor whose best score is what a search should measure next.

        That of ``adapt``, and this model before anything was measured, unless a model hedges its proposals.

        Args:
            X: ``(m, d)`` measured candidates of the task, m >= 0, in the order in which they were measured.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        """
        return self.adapt(X, y) if y.size else self


class StorableModel(TransferModel, Storable):
    """A transfer model that can be kept in a file."""


def check_measured(X: FloatArray, y: FloatArray) -> None:
    """Raise ValueError unless X is ``(m, d)`` and y ``(m,)`` positive latencies, m >= 1."""
    if X.ndim != 2 or y.shape != X.shape[:1] or not y.size:
        raise ValueError(
            f"X and y must have shapes (m, d) and (m,) with m >= 1, but got {X.shape} and {y.shape}"
        )
    if not (y > 0).all():
        raise ValueError(f"latencies must be positive, inf for failures, but got {y[~(y > 0)][:3].tolist()}")
