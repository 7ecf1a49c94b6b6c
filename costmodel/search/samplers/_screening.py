"""The part of a space that a model finds promising."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Config
from costmodel.search.samplers._prediction import JointPredictor
from costmodel.spaces._base import DrawnConfigs, SearchSpace

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
