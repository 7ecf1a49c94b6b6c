"""Gradient-boosted trees that learn only the ranking."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._training import Training
from costmodel.learners.trees._boosting import BoostedTrees


@register("xgboost-rank")
class XGBoostRanker(BoostedTrees):
    """Boosted trees for the order of the configs within a task: LambdaMART on pairs of the same task.

    Pairs are compared by RankNet's logistic loss, weighted by what exchanging them would change (Burges,
    "From RankNet to LambdaRank to LambdaMART", MSR-TR-2010-82). Relevance is the score, best latency of the
    task / latency. No latency is predicted: what the loss leaves free, a shift and the scale of each task,
    is what a latency would need.

    Args: see ``BoostedTrees``.
    """

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(seed=seed)

    def predict(self, X: FloatArray) -> Prediction:
        """The sum over trees as score."""
        return Prediction(self._margin(X))

    def _labels(self, training: Training) -> dict[str, Any]:
        return {"label": np.exp(training.log_score), "qid": training.tasks}

    def _objective(self) -> dict[str, Any]:
        return {
            "objective": "rank:pairwise",
            "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": 4,
        }
