"""The learner interface.

Notations:
    n: candidates, d: features.
    X: ``(n, d)`` float64; NaN where a feature does not apply.
    y: ``(n,)`` latency in seconds; ``inf`` for a config that failed.
    task_ids: ``(n,)``; rows with the same id are one (workload, platform) and may be compared.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column


@dataclass(frozen=True)
class Prediction:
    """A learner's prediction for n candidates.

    Attributes:
        score: ``(n,)``, higher is better. Only the order within a task matters.
        latency_s: ``(n,)`` seconds, or None if the learner predicts no latency.
        low_s: ``(n,)`` seconds, the lower end of an interval that contains the measured latency with a
            probability of 90%; None if there is no interval. Never above ``latency_s``.
        high_s: ``(n,)`` seconds, the upper end of the interval, given together with ``low_s``. Never below
            ``latency_s``.
    """

    score: FloatArray
    latency_s: FloatArray | None = None
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None


class Storable(ABC):
    """Base class of objects that can be saved without pickle, as settings and learned state.

    ``__init__`` must only store its arguments as attributes of the same names: numbers, strings, tuples of
    these, and other storables. ``register`` makes a class available for loading.
    """

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Make an unfitted object for feature tables with these columns, with default settings.

        Override this if a setting is a column position or a seed.

        Args:
            columns: Columns of the table. Use ``costmodel.columns`` to find those of a group or tag.
            seed: Seed of all random choices.
        """
        return cls()

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the learned state as NumPy arrays, numbers, strings and bytes, without pickle."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> Self:
        """Restore the learned state returned by ``state``."""


class Learner(Storable):
    """Base class of learners, which rank the candidates of a task by their features.

    Names of learned attributes end in ``_``, and ``fit`` discards earlier learned state. The prediction for a
    candidate must not depend on the other candidates in the call.

    Attributes:
        orders_apart: Whether its score tells the order of candidates better than its latency does, where it
            predicts one. Such a score is ``log(best / latency)`` up to a constant, as a learner's without
            latency is.
    """

    orders_apart: ClassVar[bool] = False

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn from measured candidates of one or more tasks.

        Raises:
            ValueError: The shapes disagree, or no row has a finite latency.
        """

    @abstractmethod
    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates; rows of several tasks may be mixed."""
