"""A pool: a space of listed configs, such as those of a replay, which is screened as a whole."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from costmodel.arguments import check_items, check_texts
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidArgumentError
from costmodel.features._extract import extract
from costmodel.features._table import in_columns
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._platform import Platform
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace, suggest_one


def features_on(
    platforms: Sequence[Platform],
    candidates: Sequence[Candidate],
    columns: Sequence[str] | None,
    compiled: Mapping[str, MachineCode] | None = None,
) -> FloatArray:
    """``(n, b, d)`` features of each candidate on each platform, as ``extract`` gives them.

    Args:
        platforms: The b platforms.
        candidates: The n candidates, of one kind of workload.
        columns: Names of the d columns; those that the candidates have if None.
        compiled: What a compiler made of the candidates, see ``extract``.

    Raises:
        CostModelError: The columns are not of such kernels.
    """
    count = len(candidates)
    tables = [extract(candidates, [platform] * count, compiled=compiled) for platform in platforms]
    return np.stack([in_columns(table, columns) for table in tables], axis=1)


class Pool(SearchSpace):
    """A space of listed candidates of one workload.

    Each decision of a config is one Optuna parameter: an integer range if every config has an integer,
    otherwise a category. The factors of a tile become a category such as ``2x1x16x4x1``. A decision that a
    config does not have is the category None, as configs of several sketches may share a pool.

    Args:
        candidates: Distinct candidates of one workload.
        *platforms: One or more platforms on which they would run.
        columns: Names of the feature columns, such as those that a model expects. Default: the columns of the
            candidates.

    Raises:
        InvalidArgumentError: There are no candidates or no platforms, one is none, or two candidates
            have the same decisions.
    """

    def __init__(
        self, candidates: Sequence[Candidate], *platforms: Platform, columns: Sequence[str] | None = None
    ) -> None:
        self.candidates: tuple[Candidate, ...] = check_items(
            "candidates", candidates, Candidate, "candidates"
        )
        self.platforms: tuple[Platform, ...] = check_items("platforms", platforms, Platform, "platforms")
        self._columns = None if columns is None else check_texts("columns", columns)
        self._names = sorted({name for c in self.candidates for name in c.config.decisions})
        self._params = [self._encode(c.config) for c in self.candidates]
        self._positions = {self._key(params): i for i, params in enumerate(self._params)}
        self._rows = {c.config.config_id: i for i, c in enumerate(self.candidates)}
        if not platforms or not self.candidates or len(self._positions) < len(self.candidates):
            raise InvalidArgumentError(
                "a pool must hold one or more candidates with distinct decisions on one or more platforms, "
                f"but got {len(self.candidates)} candidates with {len(self._positions)} distinct ones on "
                f"{len(platforms)} platforms."
            )

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def family(self) -> str:
        """Family of the candidates; empty if they are of several families."""
        families = {candidate.family for candidate in self.candidates}
        return families.pop() if len(families) == 1 else ""

    def holds(self, candidate: Candidate) -> bool:
        """Return whether the pool contains this candidate."""
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
        """Return the config that a trial proposes."""
        return self.config({name: suggest_one(trial, name, d) for name, d in self.distributions.items()})

    def params(self, config: Config) -> dict[str, Param]:
        """Return the Optuna parameters of a config; every config has all of them."""
        return self._encode(config)

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these Optuna parameters."""
        return self.candidates[self.position(params)].config

    def position(self, params: Mapping[str, Any]) -> int:
        """Return the position of the candidate with these Optuna parameters.

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
        """Return all candidates, in order."""
        return self._all

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return no configs: ``draw`` returns all of them."""
        return []

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, b, d)`` features of configs on the pool's platforms."""
        rows = np.array([self._row(config) for config in configs], dtype=np.intp)
        return self._all.features[rows]

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config.

        Raises:
            CostModelError: The pool has no such candidate.
        """
        return self.candidates[self._row(config)]

    def on(self, *platforms: Platform) -> "Pool":
        """Return a pool of the same candidates on other platforms."""
        return Pool(self.candidates, *platforms, columns=self._columns)

    def in_columns(self, columns: Sequence[str] | None) -> "Pool":
        """Return a pool of the same candidates with other feature columns."""
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
