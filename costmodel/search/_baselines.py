"""Samplers without knowledge, to compare with: random order, and Optuna's TPE held to the pool."""

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial

from costmodel.search._base import PoolSampler
from costmodel.search._pool import Param, Pool


class RandomOrderSampler(PoolSampler):
    """Proposes untried candidates in random order."""

    def choose(self, study: Study, trial: FrozenTrial, untried: NDArray[np.intp]) -> int:
        """Any untried candidate, each equally likely."""
        return int(self._rng.choice(untried))


class PoolTPESampler(PoolSampler):
    """Optuna's ``TPESampler``, each proposal moved to the nearest untried candidate.

    Near means few differing parameters: a category that differs counts 1, an integer the share of its range.
    Ties are broken at random, and so are the first ten proposals, as in ``TPESampler``.

    Args:
        pool: The candidates.
        seed: Seed of all random choices.
    """

    def __init__(self, pool: Pool, *, seed: int | None = 0) -> None:
        super().__init__(pool, seed=seed)
        self._tpe = TPESampler(seed=seed)

    def choose(self, study: Study, trial: FrozenTrial, untried: NDArray[np.intp]) -> int:
        """The untried candidate nearest to TPE's proposal."""
        space = {name: d for name, d in self.pool.distributions.items() if not d.single()}
        wish = self._tpe.sample_relative(study, trial, space)
        distances = np.array([self._distance(wish, self.pool.params(i)) for i in untried])
        return int(self._rng.choice(untried[distances == distances.min()]))

    def reseed_rng(self) -> None:
        """Draw new seeds, for workers that were copied."""
        super().reseed_rng()
        self._tpe.reseed_rng()

    def _distance(self, wish: dict[str, Param], params: dict[str, Param]) -> float:
        """How far a candidate is from a wish; 0 when nothing is wished."""
        return sum(self._difference(name, wished, params[name]) for name, wished in wish.items())

    def _difference(self, name: str, wished: Param, value: Param) -> float:
        """Difference of one parameter, in [0, 1]."""
        distribution = self.pool.distributions[name]
        if isinstance(distribution, IntDistribution) and isinstance(wished, int) and isinstance(value, int):
            return abs(wished - value) / (distribution.high - distribution.low)
        return float(wished != value)
