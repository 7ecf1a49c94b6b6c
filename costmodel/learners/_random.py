"""The random learner."""

import hashlib
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import check_features, prepare


@register("random")
class RandomLearner(Learner):
    """Scores by a hash of the row: a random order of configs that stays the same whatever is beside them.

    Args:
        seed: Another seed, another order.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(seed)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn nothing but the number of columns."""
        self.width_ = prepare(X, y, task_ids).X.shape[1]
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Scores uniform in [0, 1)."""
        check_features(X, self.width_)
        key = self.seed.to_bytes(8, "little", signed=True)
        rows = np.ascontiguousarray(X + 0.0)  # + 0.0 makes -0.0 and 0.0 the same bytes
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in rows]
        return Prediction(np.array([int.from_bytes(digest, "little") >> 11 for digest in digests]) / 2.0**53)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"width": self.width_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.width_ = StoredState(state).count("width")
        return self
