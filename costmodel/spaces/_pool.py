"""A pool: a space whose configs are listed, such as those of a replay, and that is screened as a whole."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Config, Decision, Platform, content_id
from costmodel.spaces._base import DrawnConfigs, Param, SearchSpace
from costmodel.spaces._features import features_on
from costmodel.spaces._parameters import suggest_one


class Pool(SearchSpace):
    """Candidates of one workload, and how Optuna names them.

    Each decision of a config is one Optuna parameter: an integer range where every config holds an integer,
    else a category. The factors of a tile become a category such as ``2x1x16x4x1``, and a decision that a
    config does not have (configs of several sketches may share a pool) is the category None.

    Args:
        candidates: Distinct configs of one workload.
        *platforms: Where they would run.
        columns: Names of the feature columns, such as those that a model expects; those that the candidates
            have if None.

    Raises:
        ValueError: There are no candidates or no platforms, or two candidates have the same decisions.
    """

    def __init__(
        self, candidates: Sequence[Candidate], *platforms: Platform, columns: Sequence[str] | None = None
    ) -> None:
        self.candidates = tuple(candidates)
        self.platforms = platforms
        self._columns = columns
        self._names = sorted({name for c in self.candidates for name in c.config.decisions})
        self._params = [self._encode(c.config) for c in self.candidates]
        self._positions = {self._key(params): i for i, params in enumerate(self._params)}
        self._rows = {c.config.config_id: i for i, c in enumerate(self.candidates)}
        if not platforms or not self.candidates or len(self._positions) < len(self.candidates):
            raise ValueError(
                "a pool must hold one or more candidates with distinct decisions on one or more platforms, "
                f"but got {len(self.candidates)} candidates with {len(self._positions)} distinct ones on "
                f"{len(platforms)} platforms"
            )

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def family(self) -> str:
        """That of the candidates; empty where they are of several."""
        families = {candidate.family for candidate in self.candidates}
        return families.pop() if len(families) == 1 else ""

    def holds(self, candidate: Candidate) -> bool:
        """Whether it is among the candidates."""
        return candidate in self.candidates

    @cached_property
    def space_id(self) -> str:
        """Content address of the candidates, in order, and the platforms."""
        return content_id([c.candidate_id for c in self.candidates], *(p.platform_id for p in self.platforms))

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distribution of each parameter, for ``study.ask``."""
        return {name: _distribution([params[name] for params in self._params]) for name in self._names}

    def suggest(self, trial: Trial) -> Config:
        """The config that a trial proposes."""
        return self.config({name: suggest_one(trial, name, d) for name, d in self.distributions.items()})

    def params(self, config: Config) -> dict[str, Param]:
        """Optuna parameters of a config, all of them in each."""
        return self._encode(config)

    def config(self, params: Mapping[str, Any]) -> Config:
        """The config with these Optuna parameters."""
        return self.candidates[self.position(params)].config

    def position(self, params: Mapping[str, Any]) -> int:
        """Position of the candidate with these Optuna parameters.

        Raises:
            CostModelError: The pool has no such candidate.
        """
        position = self._positions.get(self._key(params))
        if position is None:
            raise CostModelError(
                f"The parameters of a trial must be those of a candidate in the pool, but got {dict(params)}."
                " Use a sampler of this pool, and a new study for a new pool."
            )
        return position

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """All candidates, in order."""
        return self._all

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """None: all were drawn."""
        return []

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """``(n, b, d)`` features of configs of the pool on its platforms."""
        rows = np.array([self._row(config) for config in configs], dtype=np.intp)
        return self._all.features[rows]

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config.

        Raises:
            CostModelError: The pool does not hold it.
        """
        return self.candidates[self._row(config)]

    def on(self, *platforms: Platform) -> "Pool":
        """The same candidates on other platforms."""
        return Pool(self.candidates, *platforms, columns=self._columns)

    def in_columns(self, columns: Sequence[str] | None) -> "Pool":
        """The same candidates with features in other columns."""
        return Pool(self.candidates, *self.platforms, columns=columns)

    @cached_property
    def _all(self) -> DrawnConfigs:
        return DrawnConfigs(
            [c.config for c in self.candidates], features_on(self.platforms, self.candidates, self._columns)
        )

    def _row(self, config: Config) -> int:
        """Position of a config."""
        row = self._rows.get(config.config_id)
        if row is None:
            raise CostModelError(
                f"A config must be that of a candidate in the pool, but got {config.decisions}. "
                "Use a sampler of this pool."
            )
        return row

    def _encode(self, config: Config) -> dict[str, Param]:
        return {name: _encoded(config.decisions.get(name)) for name in self._names}

    def _key(self, params: Mapping[str, Any]) -> tuple[Param, ...]:
        """Hashable form of Optuna parameters."""
        return tuple(params.get(name) for name in self._names)


def _encoded(value: Decision | None) -> Param:
    """A decision as something that Optuna can store."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


def _distribution(values: list[Param]) -> BaseDistribution:
    """The distribution over the values that occur."""
    if all(isinstance(value, int) for value in values):
        integers = [value for value in values if isinstance(value, int)]
        return IntDistribution(min(integers), max(integers))
    distinct = sorted(set(values), key=lambda value: (value is None, str(value)))
    return CategoricalDistribution(distinct)
