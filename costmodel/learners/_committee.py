"""What chooses best among kernels as a tuner's own sampler draws them."""

from collections.abc import Sequence
from typing import Self

from costmodel.columns import Column, positions
from costmodel.learners._kernel_ridge import KernelRidge
from costmodel.learners._registry import register
from costmodel.learners._stack import Stack
from costmodel.learners.trees._boosted_trees import XGBoostLearner, XGBoostScorer

_SCORERS = 3


@register("committee")
class Committee(Stack):
    """A stack of which most members say the score, and the others the latency.

    Members of one kind differ by seed alone: the choice of one fit moves by as much as most other decisions
    about a model change it, and that of several together moves less (bagging: Breiman, Machine Learning 24,
    1996). Fitting takes minutes, where that of ``stack`` takes one.

    Args: see ``Stack``.
    """

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Trees for the score, which choose best; trees and kernel ridge, which also tell the latency."""
        seeds = range(_SCORERS * seed, _SCORERS * (seed + 1))  # committees of different seeds share no member
        trees = XGBoostLearner.for_columns(columns, seed)
        scorers = (XGBoostScorer.for_columns(columns, each) for each in seeds)
        return cls((KernelRidge.for_columns(columns, seed), trees, *scorers), positions(columns, "workload"))
