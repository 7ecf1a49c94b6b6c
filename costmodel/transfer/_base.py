"""The transfer contract: knowledge of source tasks, sharpened by a few measurements of a new one.

Notations are those of ``costmodel.learners``.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

from costmodel.learners import FloatArray, Prediction, TaskIds


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


class StorableModel(TransferModel):
    """A transfer model that can be kept in a file.

    ``__init__`` only stores settings under the names of its arguments: numbers, strings, tuples of them,
    learners, and storable models.
    """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Learned state as numpy arrays, numbers, strings and bytes, without pickle."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
