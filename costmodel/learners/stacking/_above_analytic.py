"""A learner of what analytic times leave to be learned."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.learners.stacking._stack import Stack
from costmodel.learners.trees._xgboost import XGBoostLearner
from costmodel.learners.trees._xgboost_rank import XGBoostRanker


@register("stack-above-analytic")
class AboveAnalytic(Learner):
    """A learner whose latencies are those above a weighted sum of analytic times, not above a roofline.

    A roofline knows neither atomics nor the loads that a thread waits for, which of kernels whose work
    depends on their data take most of the time: ``AnalyticPrior``, fitted to the same rows, does. What it
    says stands behind the last column, as log2 of seconds.

    Args:
        prior: The analytic times; fitted in place.
        learner: The learner, which has the column behind the last as its baseline; fitted in place.
    """

    def __init__(self, prior: AnalyticPrior, learner: Learner) -> None:
        self.prior = prior
        self.learner = learner

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Trees, which time best above such a sum, and a ranker, which with them chooses best."""
        trees = XGBoostLearner(baseline_column=len(columns), depth=8, min_child_weight=30.0, seed=seed)
        stack = Stack((trees, XGBoostRanker(seed=seed)), positions(columns, "workload"))
        return cls(AnalyticPrior.for_columns(columns, seed), stack)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Weigh the analytic times, then let the learner learn what is above them."""
        self.prior.fit(X, y, task_ids)
        self.learner.fit(self._with_prior(X), y, task_ids)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """What the learner says."""
        return self.learner.predict(self._with_prior(X))

    def state(self) -> dict[str, Any]:
        """Learned state of both."""
        return {"prior": self.prior.state(), "learner": self.learner.state()}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.prior.load_state(stored.part("prior"))
        self.learner.load_state(stored.part("learner"))
        return self

    def _with_prior(self, X: FloatArray) -> FloatArray:
        """``(n, d + 1)`` columns with log2 of the analytic seconds behind them."""
        latency_s = self.prior.predict(X).latency_s
        assert latency_s is not None
        return np.column_stack([X, np.log2(latency_s)])
