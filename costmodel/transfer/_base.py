"""The transfer model interface: learn from source tasks, then adapt to a new one with a few measurements.

Notations are those of ``costmodel.learners``.
"""

from abc import ABC, abstractmethod
from typing import Protocol, Self

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Prediction, Storable


class Predictor(Protocol):
    """Protocol of objects that score candidates."""

    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates; higher is better."""
        ...


class TransferModel(ABC):
    """Learn source tasks once; predict new tasks zero-shot with ``predict`` or few-shot with ``adapt``."""

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn the source tasks, and forget everything learned before."""

    @abstractmethod
    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates of a task of which nothing was measured."""

    @abstractmethod
    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        """Return a predictor for one new task, given its first measurements; this model does not change.

        Args:
            X: ``(m, d)`` measured candidates of the task, m >= 1.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        """

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        """Return a predictor whose best-scored candidate a search should measure next.

        By default this is the predictor from ``adapt``, or this model before anything was measured. Models
        that hedge their proposals override it.

        Args:
            X: ``(m, d)`` measured candidates of the task, m >= 0, in the order in which they were measured.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        """
        return self.adapt(X, y) if y.size else self


class StorableModel(TransferModel, Storable):
    """A transfer model that can be saved to a file."""


def check_measured(X: FloatArray, y: FloatArray) -> None:
    """Raise ValueError unless X is ``(m, d)`` and y ``(m,)`` positive latencies, m >= 1."""
    if X.ndim != 2 or y.shape != X.shape[:1] or not y.size:
        raise ValueError(
            f"X and y must have shapes (m, d) and (m,) with m >= 1, but got {X.shape} and {y.shape}"
        )
    if not (y > 0).all():
        raise ValueError(f"latencies must be positive, inf for failures, but got {y[~(y > 0)][:3].tolist()}")
