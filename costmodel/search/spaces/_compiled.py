"""The part of a space that was compiled, with what a compiler made of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import BaseDistribution

from costmodel.arrays import FloatArray
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Platform
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace
from costmodel.search.spaces._pool import features_on

# Gives what a compiler made of each candidate, in order; None for one that cannot be built.
Compile = Callable[[Sequence[Candidate]], Sequence[MachineCode | None]]


class CompiledSpace(SearchSpace):
    """Those configs of another space that were compiled, so that features tell what became of them.

    Its configs are those of the other space, and so are their parameters and the studies that search it. It
    draws what was looked at and could be built. What else a study measured is compiled when its features are
    asked for.

    Args:
        space: The other space.
        compile: Compiles candidates.
        columns: Names of the feature columns, such as those that a model expects. Default: the columns of the
            candidates.
    """

    def __init__(self, space: SearchSpace, compile: Compile, columns: Sequence[str] | None = None) -> None:
        self._space = space
        self.platforms: tuple[Platform, ...] = space.platforms
        self._compile, self._columns = compile, columns
        self._looked_at: dict[str, Candidate] = {}  # by config
        self._code: dict[str, MachineCode | None] = {}  # by candidate

    def look_at(self, candidates: Sequence[Candidate]) -> None:
        """Compile candidates of the other space, each once; they are drawn from now on."""
        self._compiled(candidates)
        self._looked_at.update({each.config.config_id: each for each in candidates})

    @property
    def built(self) -> list[Candidate]:
        """Candidates that were looked at and could be built, in order."""
        return [each for each in self._looked_at.values() if self._code[each.candidate_id] is not None]

    @property
    def family(self) -> str:
        """Family of the other space."""
        return self._space.family

    def holds(self, candidate: Candidate) -> bool:
        """Return whether a candidate is of the other space."""
        return self._space.holds(candidate)

    @property
    def space_id(self) -> str:
        """Content address of the other space: a study goes on whatever was compiled."""
        return self._space.space_id

    @property
    def whole(self) -> SearchSpace:
        """The other space."""
        return self._space

    @property
    def size(self) -> int | None:
        """Size of the other space."""
        return self._space.size

    @property
    def distributions(self) -> Mapping[str, BaseDistribution]:
        """Distributions of the other space."""
        return self._space.distributions

    @property
    def starts(self) -> Sequence[Config]:
        """Starts of the other space."""
        return self._space.starts

    def suggest(self, trial: Trial) -> Config:
        """Return the config that a trial proposes."""
        return self._space.suggest(trial)

    def params(self, config: Config) -> dict[str, Param]:
        """Return the parameters of a config in the other space."""
        return self._space.params(config)

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these parameters in the other space."""
        return self._space.config(params)

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Return all that was looked at and could be built, in order."""
        built = self.built
        return DrawnConfigs([each.config for each in built], self._features(built))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return no configs: ``draw`` returns all of them."""
        return []

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, b, d)`` features of configs of the other space; those not compiled yet are."""
        known = self._looked_at
        return self._features([known.get(each.config_id) or self._space.candidate(each) for each in configs])

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config of the other space."""
        return self._space.candidate(config)

    def on(self, *platforms: Platform) -> "CompiledSpace":
        """Return the same on other platforms; nothing is compiled again."""
        return self._with(self._space.on(*platforms), self._columns)

    def in_columns(self, columns: Sequence[str] | None) -> "CompiledSpace":
        """Return the same with other feature columns; nothing is compiled again."""
        return self._with(self._space, columns)

    def _with(self, space: SearchSpace, columns: Sequence[str] | None) -> "CompiledSpace":
        other = CompiledSpace(space, self._compile, columns)
        other._looked_at, other._code = self._looked_at, self._code
        return other

    def _features(self, candidates: Sequence[Candidate]) -> FloatArray:
        code = self._compiled(candidates)
        known = {id_: each for id_, each in code.items() if each is not None}
        return features_on(self.platforms, candidates, self._columns, known)

    def _compiled(self, candidates: Sequence[Candidate]) -> Mapping[str, MachineCode | None]:
        """What was made of each candidate, by its id; each is compiled once."""
        missing = [each for each in candidates if each.candidate_id not in self._code]
        for each, code in zip(missing, self._compile(missing) if missing else (), strict=True):
            self._code[each.candidate_id] = code
        return self._code
