"""Boosted trees as others use them: on raw parameters without any physics, and as TVM's search does."""

from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.learners._base import Prediction
from costmodel.learners.trees._boosted_trees import import_xgboost

_SETTINGS: dict[str, Any] = {
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "nthread": 1,
}
_ROUNDS = 300
_TVM: dict[str, Any] = {
    "tree_method": "hist",
    "max_depth": 10,
    "gamma": 0.001,
    "min_child_weight": 0,
    "eta": 0.2,
    "nthread": 1,
}
_TVM_ROUNDS = 100
# Of a launch, what its author writes down.
_LAUNCH = ("log2_blocks", "log2_threads_per_block", "log2_shared_bytes")


class RawTrees(BenchEntry):
    """XGBoost on sizes, SMs and parameters; the target is log seconds."""

    name, made_by, seeds = "xgboost-raw", "others", 3
    about = (
        "XGBoost (Chen and Guestrin, KDD 2016) on sizes, SMs, parameters and launch, for log seconds: 300 "
        "trees of depth 6."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where nothing was measured: the trees have no way to adapt."""
        return not question.measured.size

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Fit to what ran, and predict."""
        xgboost = import_xgboost(f"The entry {self.name}")
        X, known = self._seen(question), question.known
        known = known[np.isfinite(question.latency_s[known])]
        data = xgboost.QuantileDMatrix(X[known], np.log(question.latency_s[known]), nthread=1)
        trees = xgboost.train({**_SETTINGS, "seed": seed}, data, num_boost_round=_ROUNDS)
        log_s = trees.predict(xgboost.DMatrix(X[question.asked], nthread=1)).astype(np.float64)
        return Prediction(-log_s, np.exp(log_s))

    def _seen(self, question: BenchQuestion) -> FloatArray:
        seen = [
            i
            for i, column in enumerate(question.columns)
            if column.group in ("workload", "config") or column.name in ("log2_sms_granted", *_LAUNCH)
        ]
        return question.features[:, seen]


class TvmTrees(BenchEntry):
    """The throughput of a kernel over the best of its task, in which fast kernels weigh more."""

    name, made_by = "tvm-xgb", "others"
    about = (
        "The settings of MetaSchedule's XGBModel (Apache TVM 0.27, Apache-2.0): the best latency of the task "
        "/ latency, weighted by itself, trees of depth 10. Trained on the known tasks, where TVM begins each "
        "search anew and at random; on facts that are decided in place of TVM's features, which need TVM; "
        "100 trees, where TVM stops when its training error does."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where features are those of a kernel's decisions, and nothing was measured."""
        return "log2_blocks" in {each.name for each in question.columns} and not question.measured.size

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """The share of the best throughput; failures have none."""
        xgboost = import_xgboost(f"The entry {self.name}")
        X, known = self._seen(question), question.known
        score = 1.0 / question.latency_s[known]
        score /= pd.Series(score).groupby(question.tasks[known]).transform("max").to_numpy()
        data = xgboost.QuantileDMatrix(X[known], score, weight=score, nthread=1)
        trees = xgboost.train({**_TVM, "seed": seed}, data, num_boost_round=_TVM_ROUNDS)
        return Prediction(trees.predict(xgboost.DMatrix(X[question.asked], nthread=1)).astype(np.float64))

    def _seen(self, question: BenchQuestion) -> FloatArray:
        seen = [i for i, each in enumerate(question.columns) if each.group not in ("ir", "compiled")]
        return question.features[:, seen]


ENTRIES = (RawTrees(), TvmTrees())
