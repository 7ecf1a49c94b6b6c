"""Gradient-boosted trees."""

from typing import Any, Self

import numpy as np

from costmodel.errors import MissingExtraError
from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds
from costmodel.learners._training import check_features, lower_bound, prepare


class XGBoostLearner(Learner):
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
        rounds: Trees.
        depth: Depth of a tree.
        learning_rate: Weight of a tree.
        column_share: Share of the columns that each tree sees.
        min_child_weight: Least sum of weights in a leaf.
        seed: Seed of the columns' choice.
        n_jobs: Threads.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        baseline_column: int | None = None,
        *,
        rounds: int = 400,
        depth: int = 4,
        learning_rate: float = 0.05,
        column_share: float = 0.5,
        min_child_weight: float = 8.0,
        seed: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.baseline_column = baseline_column
        self.rounds = rounds
        self.depth = depth
        self.learning_rate = learning_rate
        self.column_share = column_share
        self.min_child_weight = min_child_weight
        self.seed = seed
        self.n_jobs = n_jobs

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Boost trees on all rows."""
        xgboost = _import_xgboost()

        training = prepare(X, y, task_ids)
        above = training.clipped_log_latency - lower_bound(training.X, self.baseline_column)
        rows = xgboost.DMatrix(training.X, above, nthread=self.n_jobs)
        settings = {
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

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        xgboost = _import_xgboost()

        check_features(X, self.width_)
        above = self.booster_.predict(xgboost.DMatrix(X, nthread=self.n_jobs)).astype(np.float64)
        log_latency = lower_bound(X, self.baseline_column) + above
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state; the trees in XGBoost's own UBJSON."""
        return {"width": self.width_, "booster": bytes(self.booster_.save_raw("ubj"))}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        xgboost = _import_xgboost()

        self.width_ = state["width"]
        self.booster_ = xgboost.Booster({"nthread": self.n_jobs}, model_file=bytearray(state["booster"]))
        return self


def _import_xgboost() -> Any:
    """The module.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import xgboost
    except ImportError:
        raise MissingExtraError("The learner xgboost", "xgboost-cpu") from None
    return xgboost
