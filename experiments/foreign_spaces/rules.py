"""What is compared: rules, the product's `source-mixture`, and what was tried in its place."""

from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.features._table import FeatureTable
from costmodel.learners import XGBoostLearner, prepare
from costmodel.learners._curves import TaskCurves, importance
from costmodel.learners._source_rules import NearestTask, WeightedConsensus
from costmodel.learners._training import first_rows
from costmodel.transfer import TransferModel
from costmodel.transfer._base import Predictor
from costmodel.transfer.models._calibrated import Calibrated
from costmodel.transfer.models._residual import Residual
from costmodel.transfer.models._source_mixture import SourceMixture


class OnePrior(SourceMixture):
    """The sources akin are the prior, whatever is measured, and from the first measurement on."""

    def adapt(self, X: FloatArray, y: FloatArray) -> Calibrated:  # type: ignore[override]
        return Calibrated(self._prior, self._kernel, X, y, noise=self.noise)

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        return self.adapt(X, y) if y.size else self


class ColumnsAlike(OnePrior):
    """Where a source did not measure a config, its nearest are found by columns that all weigh the same."""

    def _curves(self) -> TaskCurves:
        return TaskCurves(self.task_columns, self.neighbours, self.config_columns)


class Blended(OnePrior):
    """The mean over the architecture's sources, that over the vendor's and that over all, 4 : 2 : 1.

    The vendor is in the last column of the features. A group without a source leaves its part to all.
    """

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        super().fit(X, y, task_ids)
        training = prepare(X, y, task_ids)
        self.vendors_ = training.X[first_rows(training), -1]
        return self

    def _weights(self, X: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        everyone, akin, place = super()._weights(X)
        own = everyone * (X[0, -1] == self.vendors_)
        vendor = own / own.sum(axis=1, keepdims=True) if own.any() else everyone
        return everyone, (4.0 * akin + 2.0 * vendor + everyone) / 7.0, place


class ByImportance(OnePrior):
    """Configs are alike that agree in the columns that matter, so that a list varies these."""

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        super().fit(X, y, task_ids)
        part = importance(prepare(X, y, task_ids), self.choices_)
        self.part_ = part / part.sum()
        return self

    def _kernel(self, A: FloatArray, B: FloatArray) -> FloatArray:
        mixture = self._beyond_prior(A) @ self._beyond_prior(B).T
        differ = [A[:, [column]] != B[None, :, column] for column in self.choices_]
        apart = sum(part * each for part, each in zip(self.part_, differ, strict=True))
        return np.asarray(self.mixing**2 * mixture + self.deviation**2 * np.exp(-apart / self.length))


class InTurn(TransferModel):
    """Two models that propose in turn, each knowing all measurements."""

    def __init__(self, *models: TransferModel) -> None:
        self.models = models

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        for model in self.models:
            model.fit(X, y, task_ids)
        return self

    def predict(self, X: FloatArray):  # type: ignore[no-untyped-def]
        return self.models[0].predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        # A model has two proposals, by score and by expected improvement, before the other has its own.
        return self.models[len(y) // 2 % len(self.models)].adapt(X, y)


def columns(table: FeatureTable) -> dict[str, tuple[int, ...]]:
    """Those of the task and of the config, as `source-mixture` has them."""
    made = SourceMixture.for_columns(table.columns, 0)
    return {"task_columns": made.task_columns, "config_columns": made.config_columns or ()}


def mixture(cls: type[SourceMixture], **settings: float) -> Callable[[FeatureTable], TransferModel]:
    def make(table: FeatureTable) -> TransferModel:
        made = cls.for_columns(table.columns, 0)
        for name, value in settings.items():
            setattr(made, name, value)
        return made

    return make


def in_turn(table: FeatureTable) -> TransferModel:
    every = mixture(OnePrior)(table)
    every.kin_columns = ()  # type: ignore[attr-defined]
    return InTurn(mixture(OnePrior)(table), every)


RULES: Mapping[str, Callable[[FeatureTable], TransferModel]] = {
    "mean over sources": lambda table: Residual(WeightedConsensus(**columns(table), bandwidth=np.inf)),
    "mean weighed by descriptors": lambda table: Residual(WeightedConsensus(**columns(table))),
    "one source": lambda table: Residual(NearestTask(**columns(table))),
    "shared columns and descriptors (trees)": lambda table: Residual(
        XGBoostLearner(table.index("log2_roofline_s"), rounds=200)
    ),
    "source-mixture as it was": mixture(ColumnsAlike),
    "with columns by importance": mixture(OnePrior),
    "kin, vendor and all blended": mixture(Blended),
    "columns that matter vary": mixture(ByImportance),
    "source-mixture": mixture(SourceMixture),
    "source-mixture, deviation .2": mixture(SourceMixture, deviation=0.2),
    "two models in turn": in_turn,
}
