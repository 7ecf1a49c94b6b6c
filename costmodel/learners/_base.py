"""The learner contract.

Notations:
    n: candidates, d: features.
    X: ``(n, d)`` float64; NaN where a feature does not apply.
    y: ``(n,)`` latency in seconds; ``inf`` for a config that failed.
    task_ids: ``(n,)``; rows with the same id are one (workload, platform) and may be compared.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
TaskIds = NDArray[Any]


@dataclass(frozen=True)
class Prediction:
    """What a learner says of n candidates.

    Attributes:
        score: ``(n,)``, higher is better. Only its order within a task counts.
        latency_s: ``(n,)`` seconds, or None where the learner cannot tell.
        low_s: ``(n,)`` seconds that the latency is above, at the level that the model promises; None where it
            promises nothing.
        high_s: ``(n,)`` seconds that the latency is below, likewise.
    """

    score: FloatArray
    latency_s: FloatArray | None = None
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None


class Learner(ABC):
    """Ranks the candidates of a task from features.

    ``__init__`` only stores settings, learned state ends in ``_``, and ``fit`` forgets what was known. A
    candidate's prediction does not depend on the candidates beside it.
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

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Learned state as numpy arrays, numbers, strings and bytes, without pickle."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
