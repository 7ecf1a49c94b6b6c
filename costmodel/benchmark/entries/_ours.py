"""costmodel's own learners, by the stage of facts that they see."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.benchmark.entries._learner import LearnerEntry
from costmodel.learners._base import Prediction
from costmodel.learners.trees._boosted_trees import import_xgboost
from costmodel.transfer._read_ranker import relative_columns

_LATER = ("ir", "compiled")
# Questions about operators whose work is known.
_OF_OPERATORS = ("operators", "budgets", "devices", "few-1", "few-4", "few-16", "honest", "misled")
_TREES = 150
_SETTINGS: dict[str, Any] = {
    "tree_method": "hist",
    "max_depth": 6,
    "eta": 0.1,
    "subsample": 0.5,
    "colsample_bynode": 0.33,
    "nthread": 1,
    "base_score": 0.0,
}


class ReadTrees(BenchEntry):
    """Trees on what was read of kernels, less the mean of the task; as the ranker that the package ships."""

    name, made_by, seeds = "costmodel-read", "costmodel", 3
    about = (
        "Trees on what was read in a kernel's IR, relative to its other configs; nothing is compiled further."
    )

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where kernels were read, and nothing was measured."""
        return "ir" in {column.group for column in question.columns} and not question.measured.size

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Minus the log of the latency over the task's mean; what was not read comes last."""
        xgboost = import_xgboost(f"The entry {self.name}")
        X, y = _relative(question)
        known = question.known[np.isfinite(y[question.known]) & ~np.isnan(X[question.known, 0])]
        kernel = question.rows["kind"].iloc[known]
        weight = 1.0 / kernel.map(kernel.value_counts()).to_numpy()
        data = xgboost.QuantileDMatrix(X[known], y[known], weight=weight / weight.mean(), nthread=1)
        trees = xgboost.train({**_SETTINGS, "seed": seed}, data, num_boost_round=_TREES)
        asked = X[question.asked]
        score = -trees.predict(xgboost.DMatrix(asked, nthread=1)).astype(np.float64)
        return Prediction(np.where(np.isnan(asked[:, 0]), score.min() - 1.0, score))


class ProductTrees(BenchEntry):
    """Trees on what an analytic model of tiled products leaves out; the package ships deeper ones."""

    name, made_by, seeds = "costmodel-products", "costmodel", 3
    about = "Trees above analytic times of tiled products; kernels near the best weigh most."

    def can_answer(self, question: BenchQuestion) -> bool:
        """Only where kernels are of products."""
        return question.name == "products"

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Seconds."""
        xgboost = import_xgboost(f"The entry {self.name}")
        known, latency_s = question.known, question.latency_s
        analytic = np.log(2.0) * question.column("product/total")
        best = pd.Series(latency_s[known]).groupby(question.tasks[known]).transform("min").to_numpy()
        weight, y = (best / latency_s[known]) ** 1.5, np.log(latency_s[known]) - analytic[known]
        data = xgboost.QuantileDMatrix(question.features[known], y, weight=weight, nthread=1)
        settings = {**_SETTINGS, "eta": 0.12, "subsample": 0.7, "colsample_bynode": 0.6, "seed": seed}
        trees = xgboost.train(settings, data, num_boost_round=250)
        left = trees.predict(xgboost.DMatrix(question.features[question.asked], nthread=1))
        log_s = analytic[question.asked] + left.astype(np.float64)
        return Prediction(-log_s, np.exp(log_s))


def _relative(question: BenchQuestion) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """What was read of each row and the log of its latency, both less their mean over the task."""
    read = [i for i, column in enumerate(question.columns) if column.group == "ir"]
    values, X = question.features[:, read], np.empty((len(question.rows), len(read)), np.float32)
    for at in pd.Series(question.tasks).groupby(question.tasks).indices.values():
        X[at] = relative_columns(values[at])
    log_s = np.log(np.where(np.isfinite(question.latency_s), question.latency_s, np.nan))
    return X, log_s - pd.Series(log_s).groupby(question.tasks).transform("mean").to_numpy()


ENTRIES = (
    ReadTrees(),
    ProductTrees(),
    LearnerEntry(
        "costmodel-analytic",
        "analytic",
        without=_LATER,
        only=_OF_OPERATORS,
        about="A weighted sum of analytic times, fitted to what is known; facts that are decided.",
    ),
    LearnerEntry(
        "costmodel-kernel-ridge",
        "kernel-ridge+intervals",
        without=_LATER,
        about="Kernel ridge with calibrated intervals; facts that are decided.",
    ),
    LearnerEntry(
        "costmodel-decided",
        "committee",
        without=_LATER,
        about="A committee of trees and kernel ridge, the default of `tune` for TVM; facts that are decided.",
    ),
    LearnerEntry(
        "costmodel-known-elsewhere",
        "known-elsewhere",
        without=_LATER,
        only=("budgets",),
        about="Kriging of how each kernel departs on other SMs, where it was measured; decided facts.",
    ),
    LearnerEntry(
        "costmodel-compiled",
        "committee",
        without=("ir",),
        needs="compiled",
        about="The same, which also sees the machine code of every kernel: each has to be compiled.",
    ),
)
