"""The configs of a family for one workload."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels.family._base import Choice, Family, check_launch
from costmodel.kernels.family._formula import Formula, all_hold
from costmodel.records._candidate import Candidate, Config, ConfigBatch, Decision, KernelLaunch
from costmodel.records._workload import Workload

ConfigRows = NDArray[np.uint16]  # (n, parameters)

_MOST_ROWS = 1 << 22  # while a space is listed; beyond, it is drawn from
_CHUNK = 1 << 16
_MOST_CHUNKS = 200
_MOST_DRAWS = 100  # of a neighbour
_MOST_AT_ONCE = 1 << 17  # configs whose features are computed together


class ValidConfigs:
    """The configs of parameters that meet conditions.

    Args:
        choices: Choices of each parameter, in order.
        conditions: What must hold.
        fixed: What conditions may use beside the parameters.

    Raises:
        FormulaError: A condition uses something else.
    """

    def __init__(
        self, choices: Mapping[str, Sequence[Any]], conditions: Sequence[Formula], fixed: Mapping[str, Any]
    ) -> None:
        self._tables = {name: np.array(values) for name, values in choices.items()}
        self._conditions = conditions
        self._fixed = fixed
        for condition in conditions:
            condition.check_names({*choices, *fixed})

    def columns(self, rows: ConfigRows) -> dict[str, NDArray[Any]]:
        """Return ``(n,)`` values of each parameter."""
        return {name: table[rows[:, i]] for i, (name, table) in enumerate(self._tables.items())}

    def holds(self, columns: Mapping[str, Any], rows: int) -> NDArray[np.bool_]:
        """Return ``(rows,)`` whether the conditions hold."""
        return all_hold(self._conditions, {**self._fixed, **columns}, rows)

    def all_rows(self) -> ConfigRows | None:
        """Return every config, the first parameter changing slowest; None where listing them takes too much.

        Parameters come in one after the other, and each condition is asked as soon as it can be, so that
        most combinations are never made.
        """
        rows = np.zeros((1, 0), dtype=np.uint16)
        open_, names = list(self._conditions), set(self._fixed)
        for name, table in self._tables.items():
            names.add(name)
            if len(rows) * len(table) > _MOST_ROWS * 16:
                return None
            ready = [condition for condition in open_ if names.issuperset(condition.names)]
            open_ = [condition for condition in open_ if condition not in ready]
            rows = self._with_parameter(rows, len(table), ready)
            if len(rows) > _MOST_ROWS:
                return None
        return rows

    def draw(self, size: int, rng: np.random.Generator) -> ConfigRows:
        """Random configs, each equally likely, by rejection; fewer where hardly any combination is one."""
        kept = [np.zeros((0, len(self._tables)), dtype=np.uint16)]
        missing = size
        for _ in range(_MOST_CHUNKS):
            rows = np.stack(
                [rng.integers(len(table), size=_CHUNK, dtype=np.uint16) for table in self._tables.values()],
                axis=1,
            )
            kept.append(rows[self.holds(self.columns(rows), _CHUNK)][:missing])
            missing -= len(kept[-1])
            if not missing:
                break
        return np.concatenate(kept)

    def _with_parameter(self, rows: ConfigRows, count: int, conditions: Sequence[Formula]) -> ConfigRows:
        """Return each row with each choice of the next parameter, where the conditions hold."""
        kept = []
        step = max(1, _CHUNK // count)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            choice = np.tile(np.arange(count, dtype=np.uint16), len(part))
            more = np.hstack([np.repeat(part, count, axis=0), choice[:, None]])
            columns = {
                name: table[more[:, i]]
                for i, (name, table) in enumerate(self._tables.items())
                if i < more.shape[1]
            }
            kept.append(more[all_hold(conditions, {**self._fixed, **columns}, len(more))])
        return np.concatenate(kept) if kept else np.zeros((0, rows.shape[1] + 1), dtype=np.uint16)


class FamilySpace:
    """All configs of a family that meet its conditions: one sketch, whose decisions are the parameters.

    Optuna sees a parameter whose numbers rise as an index of them, so that near indices are near values, and
    any other as a category.

    Args:
        family: The kernels.
        workload: One of the family's.

    Attributes:
        name: Names the family, with a hash of all that its kernels depend on: equal names mean equal spaces.
        workload: The workload.
        sketches: The family's name alone.
    """

    def __init__(self, family: Family, workload: Workload) -> None:
        self.name = family.space_name
        self.workload = workload
        self.sketches = (family.name,)
        self._family = family
        self._choices = family.choices
        self._valid = ValidConfigs(self._choices, family.condition_formulas, family.fixed(workload.dims))

    @property
    def count(self) -> int | None:
        """Number of configs; None where listing them takes too much."""
        return None if self._rows is None else len(self._rows)

    @property
    def size(self) -> int | None:
        """Number of configs where they are few enough to be ranked all at once, else None."""
        return None if self.count is None or self.count > _MOST_AT_ONCE else self.count

    @property
    def starts(self) -> tuple[Config, ...]:
        """The default, then what else the family would measure first, each once."""
        others = map(self._nearest, self._family.other_starts)
        return tuple({config.config_id: config for config in (self.default, *others)}.values())

    @cached_property
    def default(self) -> Config:
        """The config of the defaults; where they break a condition, the valid one nearest to them.

        Raises:
            CostModelError: No config meets the conditions.
        """
        return self._nearest({})

    def _nearest(self, changed: Mapping[str, Choice]) -> Config:
        """Return the valid config with most of these choices; of several, that nearest to the defaults."""
        wanted = {**self._family.default_choices, **changed}
        rows = self._draw(4096, np.random.default_rng(0)) if self._rows is None else self._rows
        if self._holds(wanted):
            return Config(dict(wanted))
        if not len(rows):
            raise self._empty()
        asked = np.array([self._choices[name].index(value) for name, value in wanted.items()])
        apart = np.abs(rows.astype(np.int64) - asked)
        of_changed = [name in changed for name in wanted]
        keys = (apart.sum(axis=1), (apart > 0).sum(axis=1), (apart[:, of_changed] > 0).sum(axis=1))
        return self._config_of(rows[np.lexsort(keys)[:1]])

    def parameters(self) -> dict[str, int | tuple[Any, ...]]:
        """Return every parameter: the last index of rising numbers, or the choices."""
        return {
            name: len(choices) - 1 if _is_rising(choices) else choices
            for name, choices in self._choices.items()
        }

    def suggest(self, trial: Any) -> Config:
        """Return the config that an Optuna trial proposes; it need not meet the conditions."""
        decisions: dict[str, Decision] = {
            name: choices[trial.suggest_int(name, 0, len(choices) - 1)]
            if _is_rising(choices)
            else trial.suggest_categorical(name, choices)
            for name, choices in self._choices.items()
        }
        return Config(decisions)

    def params(self, config: Config) -> dict[str, Any]:
        """Tell what ``suggest`` would have to be told to give ``config``.

        Raises:
            InvalidConfigError: It is not of this space.
        """
        self._check_choices(config)
        return {
            name: choices.index(config.decisions[name]) if _is_rising(choices) else config.decisions[name]
            for name, choices in self._choices.items()
        }

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config that ``suggest`` gives of these parameters.

        Raises:
            CostModelError: One is missing, or is none of its choices.
        """
        decisions: dict[str, Decision] = {}
        for name, choices in self._choices.items():
            offered = range(len(choices)) if _is_rising(choices) else choices
            if params.get(name) not in offered:
                raise CostModelError(
                    f"Parameter {name} of {self.name} must be one of {list(offered)}, but got "
                    f"{params.get(name)!r}. Use a sampler of this space, and a new study for a new space."
                )
            decisions[name] = choices[params[name]] if _is_rising(choices) else params[name]
        return Config(decisions)

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Return random configs that meet the conditions, as columns; all of a smaller space, each once."""
        rows = self._draw(size, rng)
        return ConfigBatch(self.workload, len(rows), self._valid.columns(rows))

    def sample(self, rng: np.random.Generator) -> Config:
        """Return a random config that meets the conditions.

        Raises:
            CostModelError: None does.
        """
        rows = self._draw(1, rng)
        if not len(rows):
            raise self._empty()
        return self._config_of(rows)

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """Return a config with another choice of one parameter that meets the conditions.

        Where none is found in 100 draws, ``config`` itself.
        """
        names = [name for name, choices in self._choices.items() if len(choices) > 1]
        for _ in range(_MOST_DRAWS if names else 0):
            name = names[int(rng.integers(len(names)))]
            others = [choice for choice in self._choices[name] if choice != config.decisions[name]]
            changed = {**config.decisions, name: others[int(rng.integers(len(others)))]}
            if self._holds(changed):
                return Config(changed)
        return config

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of ``config`` with what the family says of its launch.

        Raises:
            InvalidConfigError: It is not of this space, breaks a condition, or has a block or grid that no
                GPU takes.
        """
        self._check_choices(config)
        if not self._holds(config.decisions):
            raise InvalidConfigError(
                f"A config of {self.name} must meet all conditions, but got {config.decisions}."
            )
        batch = ConfigBatch.from_configs(self.workload, [config])
        check_launch(self._family.geometry(self.workload, batch.decisions, 1))
        launch = KernelLaunch(**{name: int(column[0, 0]) for name, column in self.launches(batch).items()})
        return Candidate(self.workload, self.name, config, (launch,))

    def program_hash(self, config: Config) -> int:
        """Return a hash of the config: each is a program of its own."""
        return int(config.config_id, 16)

    def launches(self, batch: ConfigBatch) -> dict[str, FloatArray]:
        """Return each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it."""
        return self._family.launches(self.workload, batch.decisions, batch.size)

    @cached_property
    def _rows(self) -> ConfigRows | None:
        return self._valid.all_rows()

    def _draw(self, size: int, rng: np.random.Generator) -> ConfigRows:
        if self._rows is None:
            return self._valid.draw(size, rng)
        count = len(self._rows)
        return self._rows[rng.choice(count, size=min(size, count), replace=False)]

    def _config_of(self, rows: ConfigRows) -> Config:
        return ConfigBatch(self.workload, 1, self._valid.columns(rows)).configs()[0]

    def _holds(self, decisions: Mapping[str, Any]) -> bool:
        return bool(self._valid.holds(decisions, 1)[0])

    def _check_choices(self, config: Config) -> None:
        if list(config.decisions) != list(self._choices):
            raise InvalidConfigError(
                f"A config of {self.name} must decide {list(self._choices)}, but got "
                f"{list(config.decisions)}. It was made for another space."
            )
        for name, choices in self._choices.items():
            if config.decisions[name] not in choices:
                raise InvalidConfigError(
                    f"{name} of {self.name} must be one of {list(choices)}, but got "
                    f"{config.decisions[name]!r}."
                )

    def _empty(self) -> CostModelError:
        return CostModelError(
            f"Some config of {self.name} must meet the conditions on {self.workload.name}, but none does. "
            "Loosen them, or take other dims."
        )


def _is_rising(choices: tuple[Any, ...]) -> bool:
    """Tell whether choices are more than two numbers in rising order."""
    return (
        len(choices) > 2
        and all(isinstance(choice, int | float) for choice in choices)
        and list(choices) == sorted(choices)
    )
