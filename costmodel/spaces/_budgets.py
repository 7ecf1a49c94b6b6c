"""A space as it looks on several SM budgets at once."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import BaseDistribution

from costmodel.arrays import FloatArray
from costmodel.records import Candidate, Config, Platform, content_id
from costmodel.spaces._base import DrawnConfigs, Param, SearchSpace


class BudgetsSpace(SearchSpace):
    """The configs of a space with their features on several platforms side by side.

    The features of a config are those on the first platform, then those on the second, and so on.

    Args:
        space: The space, on whatever platform.
        platforms: Where the configs would run, such as one device with several SM budgets; one or more.

    Attributes:
        platform: The last of the platforms.
        platforms: All of them.
    """

    def __init__(self, space: SearchSpace, platforms: Sequence[Platform]) -> None:
        self.platforms = tuple(platforms)
        self.platform = self.platforms[-1]
        self.spaces = tuple(space.on(platform) for platform in platforms)
        self._one = self.spaces[0]

    @cached_property
    def space_id(self) -> str:
        """Content address of the space and all platforms."""
        return content_id(*(space.space_id for space in self.spaces))

    @property
    def size(self) -> int | None:
        """That of the space."""
        return self._one.size

    @property
    def distributions(self) -> Mapping[str, BaseDistribution]:
        """Those of the space."""
        return self._one.distributions

    def suggest(self, trial: Trial) -> Config:
        """The config that a trial proposes."""
        return self._one.suggest(trial)

    def params(self, config: Config) -> dict[str, Param]:
        """Optuna parameters of a config."""
        return self._one.params(config)

    def config(self, params: Mapping[str, Any]) -> Config:
        """The config of Optuna parameters."""
        return self._one.config(params)

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """The same configs for all platforms: each draws with one seed, which is faster than looking up."""
        seed = int(rng.integers(2**63))
        drawn = [space.draw(size, np.random.default_rng(seed)) for space in self.spaces]
        return DrawnConfigs(drawn[0].configs, np.hstack([part.features for part in drawn]))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Those of the space."""
        return self._one.neighbours(config, count, rng)

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """``(n, b * d)`` features of these configs on each platform."""
        return np.hstack([space.features(configs) for space in self.spaces])

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config, the same on all platforms."""
        return self._one.candidate(config)

    def on(self, platform: Platform) -> SearchSpace:
        """The space on one platform."""
        return self._one.on(platform)
