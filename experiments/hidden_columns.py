"""Models that do not see some columns, which several experiments share."""

from collections.abc import Sequence
from typing import Any, Self

from costmodel.columns import Column
from costmodel.learners import Learner
from costmodel.transfer.models._residual import Residual

# The columns of a step stand side by side.
_FIRST_OF_STEPS, _LAST_OF_STEPS = "log2_first_staged_bytes", "log2_inner_depth"


class WithoutColumns(Residual):
    """A model to which some columns are 0 in all rows."""

    def __init__(self, learner: Learner, hidden: Sequence[int]) -> None:
        super().__init__(learner)
        self.hidden = list(hidden)

    def fit(self, X: Any, y: Any, task_ids: Any) -> Self:
        return super().fit(self._seen(X), y, task_ids)

    def predict(self, X: Any) -> Any:
        return super().predict(self._seen(X))

    def _seen(self, X: Any) -> Any:
        X = X.copy()
        X[:, self.hidden] = 0.0
        return X


def columns_of_steps(columns: Sequence[Column]) -> list[int]:
    """Where the columns are that say what a block stages of each operand and multiplies in one step."""
    names = [column.name for column in columns]
    return list(range(names.index(_FIRST_OF_STEPS), names.index(_LAST_OF_STEPS) + 1))
