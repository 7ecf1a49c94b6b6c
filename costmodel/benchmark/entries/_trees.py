"""Boosted trees as others use them: on raw parameters, without any physics."""

from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.learners._base import Prediction

_SETTINGS: dict[str, Any] = {
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "nthread": 1,
}
_ROUNDS = 300
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
        import xgboost

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


ENTRIES = (RawTrees(),)
