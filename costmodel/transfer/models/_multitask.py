"""The target task joins the source tasks: one model is learned from all of them."""

from copy import copy
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Learner, Prediction, register
from costmodel.transfer._base import StorableModel, check_measured


@register()
class PooledMultitask(StorableModel):
    """Learns anew from the source tasks and the target's measurements, as one task more.

    This is the transfer learning autotuner TLA1 of GPTune (Liu et al., "GPTune: multitask learning for
    autotuning exascale applications", PPoPP 2021, section 5) with any learner in the place of its linear
    model of coregionalisation: the multitask model is fitted with few samples of the target, or none.

    Args:
        learner: The learner.
        copies: How often each measurement of the target counts, against one source row each.
        source_rows: Source rows that take part in learning anew; as many are drawn if there are more.
        seed: Seed of the draw.
    """

    def __init__(self, learner: Learner, *, copies: int = 10, source_rows: int = 5000, seed: int = 0) -> None:
        self.learner = learner
        self.copies = copies
        self.source_rows = source_rows
        self.seed = seed

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit the learner to the sources, and remember these."""
        self.learner.fit(X, y, task_ids)
        _, codes = np.unique(task_ids, return_inverse=True)
        order = np.lexsort([y, *X.T[::-1], codes])
        drawn = np.sort(np.random.default_rng(self.seed).permutation(order.size)[: self.source_rows])
        kept = order[drawn]
        self.X_, self.y_, self.tasks_ = X[kept], y[kept], codes[kept]
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The learner's prediction from the sources alone."""
        return self.learner.predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Learner:
        """The learner's prediction from sources and target."""
        check_measured(X, y)
        joined = np.repeat(np.arange(len(y)), self.copies)
        task = np.full(joined.size, self.tasks_.max(initial=-1) + 1)
        rows = np.vstack([self.X_, X[joined]]), np.append(self.y_, y[joined]), np.append(self.tasks_, task)
        return copy(self.learner).fit(*rows)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {"learner": self.learner.state(), "X": self.X_, "y": self.y_, "tasks": self.tasks_}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        self.learner.load_state(state["learner"])
        self.X_, self.y_, self.tasks_ = state["X"], state["y"], state["tasks"]
        return self
