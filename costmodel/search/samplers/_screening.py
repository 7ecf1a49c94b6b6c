"""The part of a space that a model finds promising."""

from collections.abc import Callable, Sequence
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
_CLIMBING = 8  # of those drawn by a search that knows nothing, it climbs from so many

# Maps ``(n, b, d)`` features to ``(n,)`` what it is worth to measure a config; higher is better.
Worth = Callable[[FloatArray], FloatArray]


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
    best = _climb(
        lambda best: neighbourhood(space, best[:_PARENTS], _NEIGHBOURS, rng),
        lambda X: predictor.predict(X).score,
        drawn.take(rows),
        score[rows],
    )
    return best.with_others(drawn.take(shuffled[:_OTHERS]))


def look_around(
    space: SearchSpace, worth: Worth, starts: Sequence[Config], size: int, rng: np.random.Generator
) -> DrawnConfigs:
    """Draw configs, and climb from the most promising of them and of ``starts``; all of a small space.

    It is for a model whose mind changes with each measurement, so that a screening is soon out of date.

    Args:
        space: The space.
        worth: Tells what it is worth to measure a config.
        starts: Configs to climb from, too.
        size: How many to draw.
        rng: Source of randomness.
    """
    drawn = space.draw(size, rng)
    if space.size is not None:
        return drawn
    if starts:
        drawn = DrawnConfigs(starts, space.features(starts)).with_others(drawn)
    value = worth(drawn.features)
    rows = _best(value)
    return _climb(
        lambda best: neighbourhood(space, [*starts, *best[:_CLIMBING]], _NEIGHBOURS, rng),
        worth,
        drawn.take(rows),
        value[rows],
    )


def _climb(
    spread: Callable[[Sequence[Config]], DrawnConfigs | None],
    worth: Worth,
    best: DrawnConfigs,
    value: FloatArray,
) -> DrawnConfigs:
    """The best of some configs, of their neighbours and of the neighbours of these.

    Args:
        spread: Gives neighbours of the first of these configs, which come best first; None where none are.
        worth: Tells what it is worth to measure a config.
        best: The configs, best first.
        value: ``(n,)`` what they are worth.
    """
    for _ in range(_GENERATIONS):
        near = spread(best.configs)
        if near is None:
            break
        both = best.with_others(near)
        if len(both) == len(best):  # all neighbours are among the best already, as in a small space
            continue
        values = np.concatenate([value, worth(both.features[len(best) :])])
        rows = _best(values)
        best, value = both.take(rows), values[rows]
    return best


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
