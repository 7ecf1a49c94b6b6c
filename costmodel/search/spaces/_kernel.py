"""The design space of a kernel source, as a search space."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from costmodel.arrays import FloatArray
from costmodel.features._data_facts import DATA_COLUMNS
from costmodel.features._extract import COLUMNS, extract_batch
from costmodel.features._parameters import parameter_columns
from costmodel.features._table import FeatureTable, in_columns
from costmodel.kernels._design_space import MOST_CHANGES, DesignSpace
from costmodel.records._candidate import Candidate, Config, ConfigBatch, config_batches
from costmodel.records._identity import content_id
from costmodel.records._platform import Platform
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace

_SOME = 256  # configs that tell whether launches of a space say what data decide
_REMEMBERED = 512  # lowered candidates: proposals are asked for again when they are measured


class KernelSpace(SearchSpace):
    """All kernels that a source can make for a workload.

    Configs are drawn in columns, and their features need no lowering: 100,000 take about a second. A config
    is lowered only when it is about to be proposed.

    Args:
        space: The design space, such as ``costmodel.kernels.metaschedule.open_space`` returns.
        *platforms: One or more platforms on which the kernels would run.
        columns: Names of the feature columns, such as those that a model expects. Default: the columns of the
            kernels.
    """

    def __init__(
        self, space: DesignSpace, *platforms: Platform, columns: Sequence[str] | None = None
    ) -> None:
        self.space = space
        self.platforms = platforms
        self._asked = columns
        self._lowered: OrderedDict[str, Candidate] = OrderedDict()

    def holds(self, candidate: Candidate) -> bool:
        """Return whether a candidate is of this design space and workload."""
        return (candidate.space, candidate.workload) == (self.space.name, self.space.workload)

    @property
    def space_id(self) -> str:
        """Content address of the design space, the workload and the platforms."""
        platform_ids = (platform.platform_id for platform in self.platforms)
        return content_id(self.space.name, self.space.workload.name, *platform_ids)

    @property
    def size(self) -> int | None:
        """Number of configs in the design space; None if there are too many to draw them all."""
        return self.space.size

    @property
    def starts(self) -> Sequence[Config]:
        """Configs of the design space to start from."""
        return self.space.starts

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Distributions of the sketch and of each sketch's parameters, prefixed with its number and a dot."""
        categorical, integer = CategoricalDistribution, IntDistribution
        return {
            name: integer(0, last) if isinstance(last, int) else categorical(last)
            for name, last in self.space.parameters().items()
        }

    def suggest(self, trial: Trial) -> Config:
        """Return the config that a trial proposes."""
        return self.space.suggest(trial)

    def params(self, config: Config) -> dict[str, Param]:
        """Return the sketch and its parameters; those of a tile are indices of divisors."""
        return dict(self.space.params(config))

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these Optuna parameters."""
        return self.space.config(params)

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Draw equally many random configs of each sketch, without duplicates."""
        sketches = range(len(self.space.sketches))
        batches = [_distinct(self.space.draw(i, -(-size // len(sketches)), rng)) for i in sketches]
        return DrawnConfigs(BatchConfigs(batches), np.vstack([self._features(batch) for batch in batches]))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return configs of the same sketch with one to three changes."""
        found: dict[str, Config] = {}
        for changes in rng.integers(1, MOST_CHANGES + 1, size=count):
            changed = config
            for _ in range(int(changes)):
                changed = self.space.mutate(changed, rng)
            found[changed.config_id] = changed
        found.pop(config.config_id, None)
        return list(found.values())

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, b, d)`` features of the decisions, which lowering a config does not change."""
        if not configs:
            return np.empty((0, len(self.platforms), len(self._columns or COLUMNS)))
        candidates = [Candidate(self.space.workload, self.space.name, config) for config in configs]
        parts = [(rows, self._features(batch)) for rows, batch in config_batches(candidates)]
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        return np.asarray(np.vstack([features for _, features in parts])[order])

    def _features(self, batch: ConfigBatch) -> FloatArray:
        """``(n, b, d)`` features of configs of one sketch."""
        tables = self._tables(batch)
        return np.stack([in_columns(table, self._columns) for table in tables], axis=1)

    def _tables(self, batch: ConfigBatch) -> list[FeatureTable]:
        """Features of configs of one sketch on each platform, in the columns that these have."""
        launches = self.space.launches(batch)
        return [extract_batch(batch, platform, launches, self.family) for platform in self.platforms]

    @cached_property
    def family(self) -> str:
        """Family of the parameters (see ``Candidate.family``)."""
        return Candidate(self.space.workload, self.space.name, Config({})).family

    @cached_property
    def _columns(self) -> Sequence[str] | None:
        """Names of the feature columns; None for those common to all operators."""
        if self._asked is not None or not self.family:
            return self._asked
        parameters = {_decision(name): each for name, each in self.space.parameters().items()}
        own = set(parameter_columns(self.space.workload, self.family, parameters))
        some = self._tables(self.space.draw(0, _SOME, np.random.default_rng(0)))
        own |= {column for table in some for column in table.columns if column in DATA_COLUMNS}
        return [column.name for column in COLUMNS] + sorted(column.name for column in own)

    def candidate(self, config: Config) -> Candidate:
        """Return the lowered candidate of a config, with the config that the source applied.

        Raises:
            InvalidConfigError: No valid kernel can be made from the config.
        """
        found = self._lowered.get(config.config_id)
        if found is None:
            found = self.space.candidate(config)
            self._lowered[config.config_id] = self._lowered[found.config.config_id] = found
            while len(self._lowered) > _REMEMBERED:
                self._lowered.popitem(last=False)
        return found

    def on(self, *platforms: Platform) -> "KernelSpace":
        """Return the same space on other platforms; lowered candidates are reused."""
        return self._with(platforms, self._asked)

    def in_columns(self, columns: Sequence[str] | None) -> "KernelSpace":
        """Return the same space with other feature columns; lowered candidates are reused."""
        return self._with(self.platforms, columns)

    def _with(self, platforms: tuple[Platform, ...], columns: Sequence[str] | None) -> "KernelSpace":
        other = KernelSpace(self.space, *platforms, columns=columns)
        other._lowered = self._lowered
        return other


class BatchConfigs(Sequence[Config]):
    """The configs of several batches, each made on access.

    Args:
        batches: The batches, in order.
    """

    def __init__(self, batches: Sequence[ConfigBatch]) -> None:
        self._batches = batches
        self._ends = np.cumsum([batch.size for batch in batches])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, row: int) -> Config: ...
    @overload
    def __getitem__(self, row: slice) -> list[Config]: ...
    def __getitem__(self, row: int | slice) -> Config | list[Config]:
        """The config at a position, counted from 0."""
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(f"row must be in [0, {len(self) - 1}], but got {row}")
        batch = int(np.searchsorted(self._ends, row, side="right"))
        start = int(self._ends[batch]) - self._batches[batch].size
        return self._batches[batch].configs([row - start])[0]

    def __iter__(self) -> Iterator[Config]:
        for batch in self._batches:
            yield from batch.configs()


def _distinct(batch: ConfigBatch) -> ConfigBatch:
    """The batch with each config once, in the order in which they were drawn."""
    columns = [column for values in batch.decisions.values() for column in values.reshape(batch.size, -1).T]
    codes = [np.unique(column, return_inverse=True)[1] for column in columns]  # texts too
    _, first = np.unique(np.column_stack(codes), axis=0, return_index=True)
    return batch.take(np.sort(first))


def _decision(parameter: str) -> str:
    """The decision that a parameter is of: a sketch's number and a dot may stand in front."""
    return re.sub(r"^[0-9]+\.", "", parameter)
