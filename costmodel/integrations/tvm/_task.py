"""What a cost model knows of one program on one platform: its own measurements, and what they teach.

Notations are those of ``costmodel.learners``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._extract import COLUMNS
from costmodel.integrations.tvm._program import Program
from costmodel.records._platform import Platform
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer.models._residual import FromScratch

_ANALYTIC = [column.name for column in COLUMNS].index("log2_analytic_s")
_MOST_LOG_RATIO = 50.0


class Task:
    """One task: its measurements so far, and a predictor that was adapted to them.

    A program that cannot be read, or has no pretrained model, is ranked by its analytic time until there are
    measurements, and learned from nothing after that.

    Args:
        program: The program.
        platform: Where it runs.
        model: The pretrained model, if there is one.

    Attributes:
        X: ``(m, d)`` measured candidates, in order.
        y: ``(m,)`` their latencies in seconds, inf for those that failed.
    """

    def __init__(self, program: Program, platform: Platform, model: TransferModel | None) -> None:
        self._program, self._platform = program, platform
        self._model = model if program.space else None
        self.X, self.y = np.empty((0, len(COLUMNS))), np.empty(0)
        self._predictor: Predictor | None = None
        self._unit: float | None = None

    def scores(self, schedules: Sequence[Any]) -> FloatArray:
        """``(n,)`` scores, higher is better, above 0: what MetaSchedule breeds in proportion to.

        They are ratios of predicted latencies: that of the best measured one over the candidate's own; before
        the first measurement, that of the best of the first candidates that were asked about.
        """
        if not schedules:
            return np.empty(0)
        score = self._score(self._program.features(schedules, self._platform))
        if self._unit is None:
            self._unit = float(score.max())
        return np.exp(np.clip(score - self._unit, -_MOST_LOG_RATIO, _MOST_LOG_RATIO))

    def learn(self, schedules: Sequence[Any], latencies_s: FloatArray) -> None:
        """Take in measurements; ``(n,)`` seconds, inf for those that failed."""
        if schedules:
            self.restore(self._program.features(schedules, self._platform), latencies_s)

    def restore(self, X: FloatArray, y: FloatArray) -> None:
        """Take in measurements by their features."""
        self.X, self.y = np.vstack([self.X, X]), np.append(self.y, y)
        if self.y.size:
            self._predictor = self._adapted()
            self._unit = float(self._score(self.X).max())

    def _adapted(self) -> Predictor:
        model = self._model or FromScratch().fit(self.X, self.y, np.zeros(len(self.y)))
        return model.adapt(self.X, self.y)

    def _score(self, X: FloatArray) -> FloatArray:
        """``(n,)`` -log latency up to a constant; never NaN."""
        predictor = self._predictor or self._model
        score = predictor.predict(X).score if predictor else -np.log(2.0) * X[:, _ANALYTIC]
        known = ~np.isnan(score)
        return np.where(known, score, score[known].min() if known.any() else 0.0)
