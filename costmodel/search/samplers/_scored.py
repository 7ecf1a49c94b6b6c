"""What a sampler chooses from, with what is predicted of it."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._scaler import Scaler
from costmodel.search.samplers._history import History
from costmodel.search.samplers._prediction import JointPredictor
from costmodel.spaces._base import DrawnConfigs


@dataclass
class ScoredConfigs:
    """What a sampler chooses from, after some measurements.

    Attributes:
        history: What had been measured.
        predictor: Predicts from features; its best score is what to measure next.
        drawn: The n configs.
        score: ``(n,)`` higher is better.
        latency_s: ``(n, b)`` predicted seconds; None where the predictor cannot tell.
        batch: Rows to propose next while these measurements are all and others are pending, best first.
    """

    history: History
    predictor: JointPredictor
    drawn: DrawnConfigs
    score: FloatArray
    latency_s: FloatArray | None
    batch: list[int] = field(default_factory=list)

    def untried(self, tried: frozenset[str] | set[str]) -> Positions:
        """Rows of the configs whose ids are not among these, best score first."""
        rows = np.flatnonzero(~np.isin(self.drawn.ids, sorted(tried)))
        return rows[np.argsort(-self.score[rows], kind="stable")]

    @cached_property
    def improvement(self) -> FloatArray:
        """``(n,)`` expected improvement of log latency of what was not measured, as far as it is worked out.

        0 for all others, and for all where the predictor has no posterior.
        """
        found = np.zeros(len(self.drawn))
        if self.predictor.posterior is not None:
            rows = self.untried(self.history.tried)
            improvement = self.predictor.improvement(self.drawn.features[rows])
            found[rows[: len(improvement)]] = improvement
        return found

    def most_improving(self, untried: Positions) -> Positions:
        """Those of these rows of which an improvement is expected, the largest first."""
        improvement = self.improvement[untried]
        best_first = np.argsort(-improvement, kind="stable")
        return untried[best_first[improvement[best_first] > 0.0]]

    def novelty(self, rows: Positions, tried: FloatArray) -> FloatArray:
        """Squared distance of each of these rows to the nearest tried config, over standardised features.

        Zero for all when nothing was tried.

        Args:
            rows: The rows.
            tried: ``(t, b, d)`` features of what was tried.
        """
        if not len(tried):
            return np.zeros(rows.size)
        every = self.drawn.features.reshape(len(self.drawn), -1)
        scaler = Scaler().fit(every)
        scaled = scaler.transform(every[rows])
        known = scaler.transform(tried.reshape(len(tried), -1))
        return np.asarray(np.min([np.square(scaled - row).sum(axis=1) for row in known], axis=0))
