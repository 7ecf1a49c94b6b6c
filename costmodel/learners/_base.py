"""The learner contract.

Notations:
    n: candidates, d: features.
    X: ``(n, d)`` float64; NaN where a feature does not apply.
    y: ``(n,)`` latency in seconds; ``inf`` for a config that failed.
    task_ids: ``(n,)``; rows with the same id are one (workload, platform) and may be compared.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column


@dataclass(frozen=True)
class Prediction:
    """What a learner says of n candidates.

    Attributes:
        score: ``(n,)``, higher is better. Only its order within a task counts.
        latency_s: ``(n,)`` seconds, or None where the learner cannot tell.
        low_s: ``(n,)`` seconds, the lower end of an interval that holds the measured latency with a
            probability of 90 %; None where no interval is known. Never above ``latency_s``.
        high_s: ``(n,)`` seconds, its upper end, given together with ``low_s``. Never below ``latency_s``.
    """

    score: FloatArray
    latency_s: FloatArray | None = None
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None


class Storable(ABC):
    """What can be kept in a file without pickle: settings, and learned state.

    ``__init__`` only stores settings under the names of its arguments: numbers, strings, tuples of them, and
    other storables. Classes are found again by ``register``.
    """

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """An unfitted one for feature tables with these columns, with default settings.

        Override it where settings are positions of columns, or a seed.

        Args:
            columns: Columns of the table; ``costmodel.columns`` finds those of a group or tag.
            seed: Seed of all random choices.
        """
        return cls()

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Learned state as numpy arrays, numbers, strings and bytes, without pickle."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""


class Learner(Storable):
    """Ranks the candidates of a task from features.

    Learned state ends in ``_``, and ``fit`` forgets what was known. A candidate's prediction does not depend
    on the candidates beside it.
    """

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn from measured candidates of one or more tasks.

        Raises:
            ValueError: The shapes disagree, or no row has a finite latency.
        """

    @abstractmethod
    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates. Rows of several tasks may be mixed."""
