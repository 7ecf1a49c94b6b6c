"""The part of a space that a model finds promising."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._scaler import Scaler
from costmodel.records._candidate import Config
from costmodel.search.samplers._history import History
from costmodel.search.samplers._prediction import JointPredictor
from costmodel.search.spaces._base import DrawnConfigs, SearchSpace

# Configs kept of a screening: the best, and some of all, in which a model that is wrong finds what it missed.
_BEST, _OTHERS = 2048, 256
# After the draw the best are improved on: neighbours of so many of them, so many each, so many times.
_GENERATIONS, _PARENTS, _NEIGHBOURS = 3, 32, 16


def screen(
    space: SearchSpace,
    predictor: JointPredictor,
    size: int,
    rng: np.random.Generator,
) -> DrawnConfigs:
    """Draw configs, keep the most promising ones and others like them; all of a small space.

    Args:
        space: The space.
        predictor: Scores configs by their features.
        size: How many to draw.
        rng: Source of randomness.

    Returns:
        Some 2,300 configs, in no order that matters.
    """
    drawn = space.draw(size, rng)
    if len(drawn) <= _BEST + _OTHERS:
        return drawn.take(np.arange(len(drawn)))
    score = predictor.predict(drawn.features).score
    shuffled = rng.permutation(len(drawn))  # what the model cannot tell apart is not to come from one sketch
    rows = shuffled[_best(score[shuffled])]
    best, score = drawn.take(rows), score[rows]
    for _ in range(_GENERATIONS):
        near = neighbourhood(space, best.configs[:_PARENTS], _NEIGHBOURS, rng)
        if near is None:
            break
        both = best.with_others(near)
        if len(both) == len(best):  # all neighbours are among the best already, as in a small space
            continue
        scores = np.concatenate([score, predictor.predict(both.features[len(best) :]).score])
        rows = _best(scores)
        best, score = both.take(rows), scores[rows]
    return best.with_others(drawn.take(shuffled[:_OTHERS]))


def neighbourhood(
    space: SearchSpace, parents: Sequence[Config], count: int, rng: np.random.Generator
) -> DrawnConfigs | None:
    """Up to ``count`` neighbours of each parent, each once; None where there are none."""
    found = {near.config_id: near for parent in parents for near in space.neighbours(parent, count, rng)}
    configs = list(found.values())
    return DrawnConfigs(configs, space.features(configs)) if configs else None


def _best(score: FloatArray) -> NDArray[np.intp]:
    """Rows of the best scores, best first; ties stay in order."""
    return np.argsort(-score, kind="stable")[:_BEST]


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
