"""The interface between a search and a space."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Candidate, Config
from costmodel.records._platform import Platform

Param = int | float | str | None


@dataclass(frozen=True)
class DrawnConfigs:
    """Configs of a space with their features.

    Attributes:
        configs: The n configs; each may be made on access.
        features: ``(n, b, d)`` features on each of b platforms; NaN where a feature does not apply.
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
        """Return the configs at these positions, with their features."""
        return type(self)([self.configs[int(row)] for row in rows], self.features[rows])

    def with_others(self, others: Self) -> Self:
        """Return these configs followed by the configs of ``others`` that are not among them."""
        new = np.flatnonzero(~np.isin(others.ids, self.ids))
        return type(self)(
            [*self.configs, *(others.configs[int(row)] for row in new)],
            np.vstack([self.features, others.features[new]]),
        )


class SearchSpace(ABC):
    """Base class of search spaces: the configs, their Optuna parameters, and their features before any build.

    A config has a value for each parameter that exists in it; a parameter may exist only for some values of
    another. Optuna uses its own parameters; ``params`` and ``config`` convert between the two.

    Attributes:
        platforms: One or more platforms on which the configs would run, such as one device with b SM budgets.
    """

    platforms: tuple[Platform, ...]

    @property
    @abstractmethod
    def family(self) -> str:
        """Family of the configs' parameters (see ``Candidate.family``)."""

    @abstractmethod
    def holds(self, candidate: Candidate) -> bool:
        """Return whether a candidate is of this space, judging by its name."""

    @property
    @abstractmethod
    def space_id(self) -> str:
        """Content address of the space and its platforms. A study belongs to one ``space_id``."""

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Number of configs if all of them are drawn at once; None if there are too many."""

    @property
    def whole(self) -> "SearchSpace":
        """The space that this one is a part of. Default: itself."""
        return self

    @property
    @abstractmethod
    def distributions(self) -> Mapping[str, BaseDistribution]:
        """Optuna distribution of each parameter that may occur."""

    @property
    def starts(self) -> Sequence[Config]:
        """Configs to measure before any other. Default: none."""
        return ()

    @abstractmethod
    def suggest(self, trial: Trial) -> Config:
        """Return the config that a trial proposes, for an objective in ``study.optimize``.

        Raises:
            CostModelError: The study's sampler proposed a config that is not in the space.
        """

    @abstractmethod
    def params(self, config: Config) -> dict[str, Param]:
        """Return the Optuna parameters of a config, in the order in which ``suggest`` asks for them."""

    @abstractmethod
    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these Optuna parameters; the inverse of ``params``.

        Raises:
            CostModelError: The space has no such config.
        """

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Draw about ``size`` distinct random configs that meet the constraints.

        If ``self.size`` is known, all configs are returned. Nothing is built, so some configs may turn out
        to be invalid.
        """

    @abstractmethod
    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return up to ``count`` distinct configs near ``config``; none if ``draw`` returns all configs."""

    @abstractmethod
    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, b, d)`` features of configs on each platform; NaN where one does not apply."""

    @abstractmethod
    def candidate(self, config: Config) -> Candidate:
        """Return the candidate to measure for a config; its own config may be an equivalent one.

        Raises:
            InvalidConfigError: No kernel can be made from the config.
        """

    @abstractmethod
    def on(self, *platforms: Platform) -> "SearchSpace":
        """Return the same space on one or more other platforms."""

    def in_columns(self, columns: Sequence[str] | None) -> "SearchSpace":
        """Return the same space with other feature columns, such as those that a model expects.

        A space whose features come from its decisions alone has no other columns and returns itself.

        Args:
            columns: Names of the columns; None for the columns of the configs.
        """
        return self


def suggest_one(trial: Trial, name: str, distribution: BaseDistribution) -> Param:
    """The value that a trial proposes for one parameter.

    Raises:
        ValueError: The distribution is none of Optuna's three.
    """
    match distribution:
        case IntDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_int(name, low, high, step=step, log=log)
        case FloatDistribution(low=low, high=high, step=step, log=log):
            return trial.suggest_float(name, low, high, step=step, log=log)
        case CategoricalDistribution(choices=choices):
            return trial.suggest_categorical(name, choices)
    raise ValueError(f"{name} must have a distribution of Optuna, but got {distribution!r}")
