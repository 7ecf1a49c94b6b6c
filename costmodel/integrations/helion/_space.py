"""The configs that Helion generates for a kernel, as a space to search."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import helion
import numpy as np
from helion.exc import InvalidConfig
from optuna import Trial
from optuna.distributions import BaseDistribution, IntDistribution

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.features._extract import extract
from costmodel.features._table import FeatureTable, in_columns
from costmodel.integrations.helion._records import config_to_helion, drop_repeated, helion_to_config
from costmodel.integrations.triton._question import Question
from costmodel.kernels._design_space import MOST_CHANGES
from costmodel.records._candidate import Candidate, Config
from costmodel.records._identity import content_id
from costmodel.records._platform import Platform
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace

# What Optuna sees of a config: when it was first seen.
SEEN_PLACE = "place"
_PLACES = 2**31 - 1
# Random configs that say which columns there are, and their scale.
_TYPICAL = 200

ConfigFilter = Callable[[helion.Config], helion.Config | None]


class HelionSpace(SearchSpace):
    """What Helion's generator makes of random numbers, normalised and repaired as Helion does.

    The space is far too large to list. A config gets its place when it is first seen, so that a study of
    this space is of one process; ``recall`` finds configs of the record store again.

    Args:
        asked: The kernel.
        generation: Helion's ``ConfigGeneration`` of it.
        platform: Where the configs would run.
        config_filter: Helion's ``autotune_config_filter``: what it refuses is no config of the space, and
            what it gives instead is measured.
        columns: Names of the feature columns, such as those that a model expects; those that random configs
            have if None.
        most_drawn: Random configs to draw at once at most: Helion makes about a thousand a second.
    """

    def __init__(  # noqa: PLR0913 (settings, three with defaults)
        self,
        asked: Question,
        generation: Any,
        platform: Platform,
        *,
        config_filter: ConfigFilter | None = None,
        columns: Sequence[str] | None = None,
        most_drawn: int = 2_500,
    ) -> None:
        self.asked = asked
        self.platforms = (platform,)
        self._generation = generation
        self._filter = config_filter
        self._given_columns = columns
        self._most_drawn = most_drawn
        self._seen: list[tuple[Config, helion.Config]] = []
        self._places: dict[str, int] = {}
        self._repaired: list[Config] = []

    @property
    def family(self) -> str:
        """What the parameters are known by: the kernel and its types."""
        return self.asked.family

    def holds(self, candidate: Candidate) -> bool:
        """Tell whether it is of this kernel on these arguments."""
        return (candidate.workload, candidate.space) == (self.asked.workload, self.asked.space)

    @cached_property
    def space_id(self) -> str:
        """Content address of what is asked and where."""
        return content_id(self.asked.workload.name, self.asked.space, self.platforms[0].platform_id)

    @property
    def size(self) -> int | None:
        """Too many to draw all."""
        return None

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """One integer, the place among those that were seen."""
        return {SEEN_PLACE: IntDistribution(0, _PLACES)}

    @cached_property
    def starts(self) -> tuple[Config, ...]:
        """What Helion runs untuned, the seeds of its compiler, and the default of its searches."""
        untuned = self.repaired(self._generation.config_spec.default_config())
        seeds = [self._add(seed) for _, seed in self._generation.seed_flat_config_pairs()]
        return tuple(drop_repeated([untuned, *seeds, self._made(self._generation.default_flat())]))

    @cached_property
    def typical(self) -> FloatArray:
        """``(n, 1, d)`` features of some random configs."""
        return self.features(self._typical)

    def suggest(self, trial: Trial) -> Config:
        """Return the config that a trial proposes."""
        return self._at(trial.suggest_int(SEEN_PLACE, 0, _PLACES))

    def params(self, config: Config) -> dict[str, Param]:
        """Return the place of a config."""
        return {SEEN_PLACE: self._place(config)}

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config at a place.

        Raises:
            CostModelError: None was seen there.
        """
        return self._at(params.get(SEEN_PLACE))

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Return random configs of Helion's generator, after its default, its seeds and what was recalled."""
        drawn = self._random(min(size, self._most_drawn), rng)
        configs = drop_repeated([*self.starts, *self._repaired, *drawn])
        return DrawnConfigs(configs, self.features(configs))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return configs with one to three changes to what Helion calls a neighbour."""
        flat = self._generation.flatten(self.helion_config(config))
        with _seeded(rng):
            near = [self._made(self._changed(list(flat), rng)) for _ in range(count)]
        return [each for each in drop_repeated(near) if each != config]

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, 1, d)`` features of configs."""
        return in_columns(self._table(configs), self._columns)[:, None]

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config, or of what the filter gives in its place.

        Raises:
            InvalidConfigError: The filter refuses it.
        """
        if self._filter is not None:
            kept = self._filter(self.helion_config(config))
            if kept is None:
                raise InvalidConfigError(
                    f"A config must pass autotune_config_filter, but {config.decisions} does not."
                )
            config = self._add(kept)
        return Candidate(self.asked.workload, self.asked.space, config)

    def on(self, *platforms: Platform) -> "HelionSpace":
        """Return the same configs on one other platform.

        Raises:
            ValueError: There are several.
        """
        (platform,) = platforms
        return HelionSpace(
            self.asked,
            self._generation,
            platform,
            config_filter=self._filter,
            columns=self._given_columns,
            most_drawn=self._most_drawn,
        )

    def recall(self, config: Config) -> Config | None:
        """The config of this space with such decisions, which another process or size of the kernel had.

        Returns:
            The nearest one that Helion makes of them; None where it makes none.
        """
        return self.repaired(config_to_helion(config))

    def repaired(self, config: helion.Config) -> Config | None:
        """Tell what Helion makes of one of its configs, such as a seed; None where it makes nothing of it."""
        found = self._generation.user_seed_flat_config_pairs([config])
        if not found:
            return None
        self._repaired.append(self._add(found[0][1]))
        return self._repaired[-1]

    def helion_config(self, config: Config) -> helion.Config:
        """Return Helion's config.

        Raises:
            CostModelError: It was not seen.
        """
        return self._seen[self._place(config)][1]

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        if self._given_columns is not None:
            return tuple(self._given_columns)
        return tuple(column.name for column in self._table(self._typical).columns)

    @cached_property
    def _typical(self) -> list[Config]:
        return self._random(_TYPICAL, np.random.default_rng(0))

    def _random(self, count: int, rng: np.random.Generator) -> list[Config]:
        with _seeded(rng):
            flats = self._generation.random_population_flat(count)
        return drop_repeated(map(self._made, flats))

    def _table(self, configs: Sequence[Config]) -> FeatureTable:
        candidates = [Candidate(self.asked.workload, self.asked.space, config) for config in configs]
        return extract(candidates, [self.platforms[0]] * len(candidates))

    def _add(self, config: helion.Config) -> Config:
        """Return a normalised config of Helion's as one of this space."""
        own = helion_to_config(config)
        place = self._places.setdefault(own.config_id, len(self._seen))
        if place == len(self._seen):
            self._seen.append((own, config))
        return self._seen[place][0]

    def _at(self, place: Any) -> Config:
        if not isinstance(place, int) or not 0 <= place < len(self._seen):
            raise CostModelError(
                f"{SEEN_PLACE} must be below {len(self._seen)}, but got {place!r}. Use a new study for each "
                "search."
            )
        return self._seen[place][0]

    def _place(self, config: Config) -> int:
        place = self._places.get(config.config_id)
        if place is None:
            raise CostModelError(
                f"A config must be one that the space has produced, but got {config.decisions}. Recall it "
                "first."
            )
        return place

    def _made(self, flat: list[Any]) -> Config | None:
        """Return the config of Helion's flat values; None where they are invalid."""
        with suppress(InvalidConfig):
            return self._add(self._generation.unflatten(flat))
        return None

    def _changed(self, flat: list[Any], rng: np.random.Generator) -> list[Any]:
        """Return flat values with one to three moved."""
        for at in rng.permutation(len(flat))[: int(rng.integers(1, MOST_CHANGES + 1))].tolist():
            near = self._generation.flat_spec[at].pattern_neighbors(flat[at])
            if near:
                flat[at] = near[int(rng.integers(len(near)))]
        return flat


@contextmanager
def _seeded(rng: np.random.Generator) -> Iterator[None]:
    """Let Helion, which draws from Python's own generator, draw what ``rng`` says; others draw as before."""
    before = random.getstate()
    random.seed(int(rng.integers(2**32)))
    try:
        yield
    finally:
        random.setstate(before)
