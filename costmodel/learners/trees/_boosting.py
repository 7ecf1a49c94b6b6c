"""What all learners of boosted trees share: settings, training, prediction and state."""

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.errors import MissingExtraError
from costmodel.learners._base import Learner
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import Training, check_features, prepare
from costmodel.learners.trees._checked_booster import check_booster


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTrees(Learner):
    """Trees boosted by XGBoost (Chen and Guestrin, arXiv:1603.02754); what they predict is for others to say.

    Args:
        rounds: Trees.
        depth: Depth of a tree.
        learning_rate: Weight of a tree.
        column_share: Share of the columns that each tree sees.
        min_child_weight: Least sum of weights in a leaf.
        seed: Seed of the columns' choice.
        n_jobs: Threads.
    """

    rounds: int = 400
    depth: int = 4
    learning_rate: float = 0.05
    column_share: float = 0.5
    min_child_weight: float = 8.0
    seed: int = 0
    n_jobs: int = 1

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Boost trees on all rows."""
        xgboost = import_xgboost()

        training = prepare(X, y, task_ids)
        rows = xgboost.QuantileDMatrix(training.X, nthread=self.n_jobs, **self._labels(training))
        settings = {
            **self._objective(),
            "tree_method": "hist",
            "max_depth": self.depth,
            "eta": self.learning_rate,
            "colsample_bytree": self.column_share,
            "min_child_weight": self.min_child_weight,
            "seed": self.seed,
            "nthread": self.n_jobs,
        }
        self.width_ = X.shape[1]
        self.booster_ = xgboost.train(settings, rows, num_boost_round=self.rounds)
        return self

    def contributions(self, X: FloatArray) -> FloatArray:
        """What each column adds to what the trees say of each row: the Shapley values of the trees, exact.

        Those of TreeSHAP with paths weighted by the training rows that took them (Lundberg et al., "From
        local explanations to global understanding with explainable AI for trees", Nature Machine Intelligence
        2, 2020, algorithm 2). Columns that say the same share what they add.

        Args:
            X: ``(n, d)`` candidates.

        Returns:
            ``(n, d + 1)``: a column of X each, and last what all rows begin with. A row adds up to what the
            trees predict: of ``XGBoostLearner`` log(latency / lower bound), so that 0.1 is 10 % longer; of
            ``XGBoostRanker`` the score.
        """
        check_features(X, self.width_)
        rows = import_xgboost().DMatrix(X, nthread=self.n_jobs)
        return np.asarray(self.booster_.predict(rows, pred_contribs=True), dtype=np.float64)

    def state(self) -> dict[str, Any]:
        """Learned state; the trees in XGBoost's own UBJSON."""
        return {"width": self.width_, "booster": bytes(self.booster_.save_raw("ubj"))}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        xgboost = import_xgboost()

        stored = StoredState(state)
        self.width_, trees = stored.count("width"), stored.bytes("booster")
        check_booster(trees, self.width_, self._objective()["objective"])
        threads = min(self.n_jobs, os.cpu_count() or 1)  # the file's may be those of a larger machine
        self.booster_ = xgboost.Booster({"nthread": threads}, model_file=bytearray(trees))
        return self

    def _labels(self, training: Training) -> dict[str, Any]:
        """What the rows are labelled with, as arguments of a DMatrix."""
        raise NotImplementedError

    def _objective(self) -> dict[str, Any]:
        """Settings of XGBoost that name the loss."""
        raise NotImplementedError

    def _margin(self, X: FloatArray) -> FloatArray:
        """``(n,)`` sum over trees."""
        check_features(X, self.width_)
        # In place: no copy of the rows is binned or sorted, which would cost more than the trees.
        margin = self.booster_.inplace_predict(np.ascontiguousarray(X), predict_type="margin")
        return np.asarray(margin, dtype=np.float64).reshape(len(X))  # of no rows XGBoost 3.4 makes (0, 0)


def import_xgboost(what: str = "The learner xgboost") -> Any:
    """The module, which ``what`` needs.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError(what, "xgboost-cpu") from None
    return xgboost
