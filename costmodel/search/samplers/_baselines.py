"""Baseline samplers: random order, and any Optuna sampler restricted to a pool."""

from collections.abc import Mapping, Sequence

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.errors import InvalidConfigError
from costmodel.records._candidate import Config
from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._history import History
from costmodel.search.spaces._base import Param
from costmodel.search.spaces._pool import Pool

_DRAWN = 64  # configs drawn for one proposal from a large space; nearly all are valid and new


class RandomOrderSampler(SpaceSampler):
    """Sampler that proposes untried configs in random order."""

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """Choose any untried config with equal probability."""
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


class PoolSampler(SpaceSampler):
    """Optuna sampler whose proposals are moved to the nearest untried candidate of a pool.

    Near means few differing parameters: a category that differs counts 1, an integer the share of its range.
    Ties are broken at random, and so is all that the sampler leaves open, such as its first proposals. It
    learns of the candidate that was measured, not of what it proposed.

    Args:
        pool: The candidates.
        sampler: Proposes all parameters together, as ``TPESampler``, ``GPSampler`` and ``NSGAIISampler`` do.
        seed: Seed of what is random here; the sampler has a seed of its own.

    Example:
        >>> study = optuna.create_study(sampler=PoolSampler(pool, TPESampler(seed=0)))  # doctest: +SKIP
    """

    def __init__(self, pool: Pool, sampler: BaseSampler, *, seed: int | None = 0) -> None:
        super().__init__(pool, seed=seed)
        self.pool = pool
        self.sampler = sampler
        self.knowledge = {"sampler": type(sampler).__name__}
        self._varying = {name: d for name, d in pool.distributions.items() if not d.single()}
        every = [pool.params(candidate.config) for candidate in pool.candidates]
        self._columns = {
            name: np.array([d.to_internal_repr(params[name]) for params in every])
            for name, d in self._varying.items()
        }

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """Choose the untried config nearest to the sampler's proposal."""
        self.sampler.before_trial(study, trial)
        wish = self.sampler.sample_relative(study, trial, self._varying)
        ids = np.array([candidate.config.config_id for candidate in self.pool.candidates])
        untried = np.flatnonzero(~np.isin(ids, sorted(history.tried)))
        if not untried.size:
            raise self.nothing_left()
        distances = self._distances(wish)[untried]
        nearest = untried[distances == distances.min()]
        return self.pool.candidates[int(self.rng(trial.number).choice(nearest))].config

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Let the sampler see the result, and end ``study.optimize`` when the pool is used up."""
        self.sampler.after_trial(study, trial, state, values)
        super().after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Draw a new seed for the sampler, for workers that were copied."""
        self.sampler.reseed_rng()

    def _distances(self, wish: Mapping[str, Param]) -> FloatArray:
        """``(n,)`` how far each candidate is from a wish; 0 for all when nothing is wished."""
        distances = np.zeros(len(self.pool))
        for name, wished in wish.items():
            distances += _differences(self._varying[name], self._columns[name], wished)
        return distances


def _differences(distribution: BaseDistribution, column: FloatArray, wished: Param) -> FloatArray:
    """``(n,)`` differences of one parameter, in [0, 1]."""
    away = np.abs(column - distribution.to_internal_repr(wished))
    if isinstance(distribution, IntDistribution):
        return np.asarray(away / (distribution.high - distribution.low))
    return (away > 0).astype(np.float64)
