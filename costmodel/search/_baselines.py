"""Samplers without knowledge, to compare with: random order, and Optuna's TPE held to a pool."""

import numpy as np
from optuna import Study
from optuna.distributions import IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial

from costmodel.records import Config
from costmodel.search._base import SpaceSampler
from costmodel.search._history import History
from costmodel.search._pool import Pool
from costmodel.search._space import Param
from costmodel.spaces import InvalidConfigError

_DRAWN = 64  # configs drawn for one proposal from a large space; nearly all are valid and new


class RandomOrderSampler(SpaceSampler):
    """Proposes untried configs in random order."""

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """Any untried config, each equally likely."""
        rng = self.rng(trial.number)
        drawn = self.space.draw(_DRAWN, rng)
        for row in rng.permutation(len(drawn)):
            if drawn.configs[row].config_id in history.tried:
                continue
            try:
                config = self.space.candidate(drawn.configs[row]).config
            except InvalidConfigError:
                continue
            if config.config_id not in history.tried:
                return config
        raise self.nothing_left()


class PoolTPESampler(SpaceSampler):
    """Optuna's ``TPESampler``, each proposal moved to the nearest untried candidate of a pool.

    Near means few differing parameters: a category that differs counts 1, an integer the share of its range.
    Ties are broken at random, and so are the first ten proposals, as in ``TPESampler``.

    Args:
        pool: The candidates.
        seed: Seed of all random choices.
    """

    def __init__(self, pool: Pool, *, seed: int | None = 0) -> None:
        super().__init__(pool, seed=seed)
        self.pool = pool
        self._tpe = TPESampler(seed=seed)

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """The untried config nearest to TPE's proposal."""
        space = {name: d for name, d in self.pool.distributions.items() if not d.single()}
        wish = self._tpe.sample_relative(study, trial, space)
        untried = [c.config for c in self.pool.candidates if c.config.config_id not in history.tried]
        if not untried:
            raise self.nothing_left()
        distances = np.array([self._distance(wish, self.pool.params(config)) for config in untried])
        return untried[int(self.rng(trial.number).choice(np.flatnonzero(distances == distances.min())))]

    def reseed_rng(self) -> None:
        """Draw new seeds for TPE, for workers that were copied."""
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
