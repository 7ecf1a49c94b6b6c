"""Gradient-boosted trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column, position
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import check_positions
from costmodel.learners._training import Training, lower_bound
from costmodel.learners.trees._boosting import BoostedTrees


@register("xgboost")
@dataclass(eq=False, repr=False)
class XGBoostLearner(BoostedTrees):
    """Boosted trees for latency above a lower bound (Chen and Guestrin, arXiv:1603.02754).

    The trees predict how far above ``2 ** X[:, baseline_column]`` seconds a config stays: with a physical
    lower bound there, tasks of every size share what they know. The score is -log latency. Failures count as
    slow as ``LOWEST_LOG_SCORE`` says.

    The defaults were chosen on the tasks of half of the workloads of an H100 campaign, each workload left out
    in turn. All rows weigh the same: weights that favour fast configs (weight = score) lost 0.05 of Score@1.
    Depth 4 did better than 6; depth 3, 300 to 600 rounds, larger leaves, drawn rows, and means over five
    seeds made no difference beyond noise. Log score or rank within the task as the target was no better.

    Args:
        baseline_column: Position of a column with log2 of a lower bound in seconds, NaN where unknown; None
            for none.

    The other settings are those of ``BoostedTrees``.
    """

    baseline_column: int | None = None

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(baseline_column=position(columns, "lower_bound"), seed=seed)

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        log_latency = self._margin(X) + lower_bound(X, self.baseline_column)
        return Prediction(-log_latency, np.exp(log_latency))

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        super().load_state(state)
        check_positions(self.width_, self.baseline_column)
        return self

    def _labels(self, training: Training) -> dict[str, Any]:
        return {"label": training.clipped_log_latency - lower_bound(training.X, self.baseline_column)}

    def _objective(self) -> dict[str, Any]:
        return {"objective": "reg:squarederror"}
