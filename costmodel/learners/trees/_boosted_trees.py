"""Gradient-boosted trees, for latency or for the order of the configs within a task."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position
from costmodel.errors import MissingExtraError
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState, check_positions
from costmodel.learners._training import Training, check_features, lower_bound, prepare
from costmodel.learners.trees._checked_booster import check_booster
from costmodel.learners.trees._ubjson import zero_floats

# What XGBoost notes of each node while it grows trees, and reads neither to predict nor for Shapley values: a
# quarter of a file.
_OF_GROWING = ("loss_changes", "base_weights")


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTrees(Learner):
    """Trees boosted by XGBoost (Chen and Guestrin, arXiv:1603.02754); what they predict is for others to say.

    Args:
        rounds: Trees.
        depth: Depth of a tree.
        learning_rate: Weight of a tree.
        column_share: Share of the columns that each tree sees.
        split_share: Share of these among which each split is chosen.
        row_share: Share of the rows that each tree sees, drawn without replacement.
        min_child_weight: Least sum of weights in a leaf.
        seed: Seed of the choice of columns and rows.
        n_jobs: Threads.
    """

    rounds: int = 400
    depth: int = 4
    learning_rate: float = 0.05
    column_share: float = 0.5
    split_share: float = 1.0
    row_share: float = 1.0
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
            "colsample_bynode": self.split_share,
            "subsample": self.row_share,
            "min_child_weight": self.min_child_weight,
            "seed": self.seed,
            "nthread": self.n_jobs,
        }
        self.width_ = X.shape[1]
        self.booster_ = xgboost.train(settings, rows, num_boost_round=self.rounds)
        return self

    def contributions(self, X: FloatArray) -> FloatArray:
        """Return what each column adds to what the trees say of each row: their exact Shapley values.

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
        """Learned state; the trees in XGBoost's own UBJSON, without what only growing them needs."""
        trees = zero_floats(bytes(self.booster_.save_raw("ubj")), *_OF_GROWING)
        return {"width": self.width_, "booster": trees}

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
        """Return the labels of the rows, as arguments of a DMatrix."""
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

    @classmethod
    def of_many_tasks(cls, columns: Sequence[Column], seed: int) -> Self:
        """Larger trees, which err less where hundreds of operators are known (experiments/LOG.md)."""
        return cls(
            baseline_column=position(columns, "lower_bound"),
            rounds=200,
            depth=8,
            learning_rate=0.1,
            column_share=1.0,
            split_share=1 / 3,
            row_share=0.5,
            min_child_weight=30.0,
            seed=seed,
        )

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


@register("xgboost-score")
class XGBoostScorer(BoostedTrees):
    """Boosted trees for the score of a config, best latency of its task / latency, less its task's mean.

    The choice that is expected to score best is that of the largest expected score: what a slow config loses
    counts a little, whether it takes ten or a hundred times as long. How good a task's configs are on average
    depends on how they were drawn, so each task's mean is left out, and tasks weigh alike whatever their
    number of configs. No latency is predicted.

    On kernels as a tuner's own sampler draws them, of workloads never seen, this target chose better than log
    latency above a bound or above the task's mean, and many trees of depth 8 better than fewer or than those
    of depth 6 (experiments/LOG.md).

    Args: see ``BoostedTrees``.
    """

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Many large trees, which differ by the rows and columns that they see."""
        return cls(
            depth=8,
            learning_rate=0.075,
            column_share=1.0,
            split_share=1 / 3,
            row_share=0.25,
            min_child_weight=20.0,
            seed=seed,
        )

    def predict(self, X: FloatArray) -> Prediction:
        """The sum over trees as score."""
        return Prediction(self._margin(X))

    def _labels(self, training: Training) -> dict[str, Any]:
        score, size = np.exp(training.log_score), np.bincount(training.tasks)
        mean = np.bincount(training.tasks, score) / size
        return {
            "label": score - mean[training.tasks],
            "weight": (len(score) / len(size)) / size[training.tasks],
        }

    def _objective(self) -> dict[str, Any]:
        return {"objective": "reg:squarederror"}
