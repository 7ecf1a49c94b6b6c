"""What a search needs of a space, whatever the space is made of."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from optuna import Trial
from optuna.distributions import BaseDistribution

from costmodel.arrays import FloatArray
from costmodel.records import Candidate, Config, Platform

Param = int | float | str | None


@dataclass(frozen=True)
class DrawnConfigs:
    """Configs of a space with their features.

    Attributes:
        configs: The n configs; may be made one by one where they are asked for.
        features: ``(n, b, d)`` features on each of b platforms; NaN where one does not apply.
    """

    configs: Sequence[Config]
    features: FloatArray

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def ids(self) -> NDArray[np.str_]:
        """``(n,)`` content address of each config."""
        return np.array([config.config_id for config in self.configs], dtype="U16")

    def take(self, rows: NDArray[Any]) -> Self:
        """The configs of these positions, made at once."""
        return type(self)([self.configs[int(row)] for row in rows], self.features[rows])

    def with_others(self, others: Self) -> Self:
        """These configs, then those of ``others`` that are not among them."""
        new = np.flatnonzero(~np.isin(others.ids, self.ids))
        return type(self)(
            [*self.configs, *(others.configs[int(row)] for row in new)],
            np.vstack([self.features, others.features[new]]),
        )


class SearchSpace(ABC):
    """Configs to choose from, how Optuna names them, and what is known of them before anything is built.

    A config is one choice of all parameters that exist in it: one that depends on another's value is absent
    where it does not exist. Optuna sees parameters of its own; ``params`` and ``config`` go to and fro.

    Attributes:
        platforms: Where the configs would run, such as one device with b SM budgets; one or more.
    """

    platforms: tuple[Platform, ...]

    @property
    @abstractmethod
    def family(self) -> str:
        """What the configs' parameters are known by, see ``Candidate.family``."""

    @abstractmethod
    def holds(self, candidate: Candidate) -> bool:
        """Whether a candidate is of this space, as far as its name tells."""

    @property
    @abstractmethod
    def space_id(self) -> str:
        """Content address of the space and its platforms: a study belongs to one."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Number of configs where all of them are drawn at once; None where there are too many."""

    @property
    @abstractmethod
    def distributions(self) -> Mapping[str, BaseDistribution]:
        """Optuna distribution of each parameter that may occur."""

    @property
    def starts(self) -> Sequence[Config]:
        """Configs to measure before any other; none where nothing is known of them."""
        return ()

    @abstractmethod
    def suggest(self, trial: Trial) -> Config:
        """The config that a trial proposes, for an objective in ``study.optimize``.

        Raises:
            CostModelError: The study's sampler proposed what the space does not hold.
        """

    @abstractmethod
    def params(self, config: Config) -> dict[str, Param]:
        """Optuna parameters of a config, in the order in which ``suggest`` asks for them."""

    @abstractmethod
    def config(self, params: Mapping[str, Any]) -> Config:
        """The config of Optuna parameters, the inverse of ``params``.

        Raises:
            CostModelError: The space has no such config.
        """

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """About ``size`` random distinct configs that meet the constraints; all where ``self.size`` is known.

        Nothing is built, so that some may turn out invalid.
        """

    @abstractmethod
    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Up to ``count`` distinct configs near ``config``; none where all were drawn anyway."""

    @abstractmethod
    def features(self, configs: Sequence[Config]) -> FloatArray:
        """``(n, b, d)`` features of these configs on each platform; NaN where one does not apply."""

    @abstractmethod
    def candidate(self, config: Config) -> Candidate:
        """What is to be measured for a config; it may have another config that stands for the same.

        Raises:
            InvalidConfigError: No kernel comes of it.
        """

    @abstractmethod
    def on(self, *platforms: Platform) -> "SearchSpace":
        """The same configs on other platforms, one or more."""

    def in_columns(self, columns: Sequence[str] | None) -> "SearchSpace":
        """The same configs with features in other columns, such as those that a model expects.

        A space whose features are those of its decisions alone has no others, and stays as it is.

        Args:
            columns: Names of the columns; those that the configs have if None.
        """
        return self
