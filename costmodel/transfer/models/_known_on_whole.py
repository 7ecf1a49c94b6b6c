"""A model that is told what kernels of one workload take on the whole device."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column, positions
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import row_keys
from costmodel.learners._training import LOWEST_LOG_SCORE
from costmodel.transfer.models._residual import Residual


class KnownOnWhole(Residual):
    """A fitted model of other workloads, and what kernels of one take on the whole device.

    On a part of the device a kernel takes what it takes on the whole, times what the learner expects of the
    change, of whose logarithm ``share`` counts: a learner tells how a kernel changes better than how long it
    takes, and exaggerates. Kernels that were not measured there get what the learner says; the scores of the
    others are brought to the level of its scores. A failure counts as ``-LOWEST_LOG_SCORE`` slower than the
    learner says.

    Args:
        model: The fitted model.
        columns: The columns of its features.
        X: ``(k, d)`` features of the kernels on the whole device.
        y: ``(k,)`` their seconds there; inf for a failure. At least one ran.
        share: Share of the predicted change that counts.
    """

    def __init__(
        self, model: Residual, columns: Sequence[Column], X: FloatArray, y: FloatArray, *, share: float = 0.75
    ) -> None:
        settings: dict[str, Any] = {
            name: getattr(model, name) for name in ("deviation", "length", "slope", "noise", "scale")
        }
        super().__init__(model.learner, **settings)
        self.scaler_ = model.scaler_
        self.share = share
        self._kernel = list(positions(columns, "workload", "config", tags=("any_sms",)))
        self._place_of = {key: place for place, key in enumerate(row_keys(X[:, self._kernel]))}
        self._there = self.learner.predict(X)
        ran = np.isfinite(y)
        level = float((self._there.score[ran] + np.log(y[ran])).mean())
        self._score = np.where(ran, level - np.log(y), self._there.score + LOWEST_LOG_SCORE)
        self._slower = None
        if self._there.latency_s is not None:
            # By how much each takes longer there than the learner says, in log latency.
            self._slower = np.where(ran, np.log(y / self._there.latency_s), -LOWEST_LOG_SCORE)

    def predict(self, X: FloatArray) -> Prediction:
        """What the learner says, for kernels that were measured on the whole device moved by that."""
        told = self.learner.predict(X)
        place = np.array([self._place_of.get(key, -1) for key in row_keys(X[:, self._kernel])], dtype=np.intp)
        rows = np.flatnonzero(place >= 0)
        at, score = place[rows], told.score.copy()
        score[rows] = self._score[at] + self.share * (told.score[rows] - self._there.score[at])
        if told.latency_s is None or self._there.latency_s is None or self._slower is None:
            return Prediction(score)
        change = np.log(told.latency_s[rows] / self._there.latency_s[at])
        latency_s = told.latency_s.copy()
        latency_s[rows] *= np.exp(self._slower[at] - (1.0 - self.share) * change)
        return Prediction(score, latency_s)
