"""The configs that Kernel Tuner allows, as a space to search."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Trial
from optuna.distributions import BaseDistribution, IntDistribution

from costmodel.arrays import FloatArray
from costmodel.dataset.importers._kernel_tuner_entries import TunedKernel
from costmodel.errors import CostModelError
from costmodel.features._extract import extract
from costmodel.features._table import FeatureTable, in_columns
from costmodel.records._candidate import Candidate, Config
from costmodel.records._identity import content_id
from costmodel.records._platform import Platform
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace

# What Optuna sees of a config: its place in the list.
LISTED_PLACE = "place"
# A larger space is drawn from, and not scored as a whole.
_MOST_LISTED = 50_000


class ListedSpace(SearchSpace):
    """Configs that are listed, each on the part of the device that its share of the SMs makes.

    Args:
        kernel: The kernel.
        configs: The n configs: a value of each parameter of the kernel, in its order.
        columns: Names of the feature columns, such as those that a model expects; those that the configs
            have if None.

    Raises:
        CostModelError: There are no configs.
        EntryError: A value is of a kind that no config has.
    """

    def __init__(
        self, kernel: TunedKernel, configs: Sequence[tuple[Any, ...]], columns: Sequence[str] | None = None
    ) -> None:
        self.kernel = kernel
        self.configs = configs
        self.platforms = (kernel.platform,)
        self._columns = _columns_of(kernel) if columns is None else tuple(columns)
        self._places = {values: place for place, values in enumerate(configs)}
        self._made: dict[int, Config] = {}
        if not configs:
            raise CostModelError(
                f"Some config of {kernel.workload.name} must meet all restrictions. Loosen them."
            )

    @property
    def family(self) -> str:
        """What the parameters are known by."""
        return self.kernel.workload.kind

    def holds(self, candidate: Candidate) -> bool:
        """Tell whether it is of this kernel."""
        return (candidate.workload, candidate.space) == (self.kernel.workload, self.kernel.space)

    @cached_property
    def space_id(self) -> str:
        """Content address of the kernel's parameters, the configs and where they run."""
        parameters = {name: list(map(str, values)) for name, values in self.kernel.parameters.items()}
        return content_id(
            self.kernel.workload.name, parameters, len(self.configs), self.platforms[0].platform_id
        )

    @property
    def size(self) -> int | None:
        """Number of configs; None where they are too many to score all."""
        return len(self.configs) if len(self.configs) <= _MOST_LISTED else None

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """One integer, the place in the list."""
        return {LISTED_PLACE: IntDistribution(0, len(self.configs) - 1)}

    def suggest(self, trial: Trial) -> Config:
        """Return the config that a trial proposes."""
        return self._config(trial.suggest_int(LISTED_PLACE, 0, len(self.configs) - 1))

    def params(self, config: Config) -> dict[str, Param]:
        """Return the place of a config."""
        return {LISTED_PLACE: self.place(config)}

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config at a place.

        Raises:
            CostModelError: There is none.
        """
        place = params.get(LISTED_PLACE)
        if not isinstance(place, int) or not 0 <= place < len(self.configs):
            raise CostModelError(
                f"{LISTED_PLACE} must be from 0 to {len(self.configs) - 1}, but got {place!r}. Use a new "
                "study."
            )
        return self._config(place)

    def place(self, config: Config) -> int:
        """Return the place of a config in the list.

        Raises:
            CostModelError: It is not listed.
        """
        place = self._places.get(tuple(config.decisions.get(name) for name in self.kernel.parameters))
        if place is None:
            raise CostModelError(f"A config must be one of those listed, but got {config.decisions}.")
        return place

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Return random configs; all of a small space, in order."""
        if self.size is not None:
            return self._all
        count = len(self.configs)
        return self._drawn(rng.choice(count, size=min(size, count), replace=False))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return configs that differ in one parameter; none of a small space."""
        if self.size is not None:
            return []
        values = self.configs[self.place(config)]
        near = [
            place
            for at, choices in enumerate(self.kernel.parameters.values())
            for choice in choices
            if choice != values[at]
            and (place := self._places.get((*values[:at], choice, *values[at + 1 :]))) is not None
        ]
        return [self._config(place) for place in rng.permutation(near)[:count].astype(int).tolist()]

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, 1, d)`` features of configs, each where it runs."""
        places = np.array([self.place(config) for config in configs], dtype=np.intp)
        return self._features(places) if self.size is None else self._all.features[places]

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config, which has its share of the SMs."""
        return Candidate(self.kernel.workload, self.kernel.space, config)

    def on(self, *platforms: Platform) -> "ListedSpace":
        """Return the same configs on one other platform.

        Raises:
            ValueError: There are several.
        """
        (platform,) = platforms
        return ListedSpace(replace(self.kernel, platform=platform, _parts={}), self.configs, self._columns)

    @cached_property
    def _all(self) -> DrawnConfigs:
        return self._drawn(np.arange(len(self.configs)))

    def _config(self, place: int) -> Config:
        """Return the config at a place; the same object each time, as it remembers its id."""
        if place not in self._made:
            self._made[place] = Config(self.kernel.decisions(self._values(place)))
        return self._made[place]

    def _values(self, place: int) -> dict[str, Any]:
        return dict(zip(self.kernel.parameters, self.configs[place], strict=True))

    def _drawn(self, places: NDArray[np.intp]) -> DrawnConfigs:
        return DrawnConfigs([self._config(place) for place in places.tolist()], self._features(places))

    def _features(self, places: NDArray[np.intp]) -> FloatArray:
        """Return ``(n, 1, d)`` features of the configs at these places."""
        rows = [self._values(place) for place in places.tolist()]
        return in_columns(_features_of(self.kernel, rows), self._columns)[:, None]


def _columns_of(kernel: TunedKernel) -> tuple[str, ...]:
    """Return names of the columns that configs may have: which there are depends on the values that occur."""
    first = {name: values[0] for name, values in kernel.parameters.items()}
    rows = [{**first, name: value} for name, values in kernel.parameters.items() for value in values]
    return tuple(column.name for column in _features_of(kernel, rows).columns)


def _features_of(kernel: TunedKernel, rows: Sequence[Mapping[str, Any]]) -> FeatureTable:
    candidates = [kernel.candidate(values) for values in rows]
    return extract(candidates, [kernel.platform_of(values) for values in rows])
