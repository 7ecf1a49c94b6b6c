"""A space that a user declares for their own function."""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)

from costmodel.arguments import check_items, check_kind, check_text
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidArgumentError, InvalidConfigError
from costmodel.kernels._design_space import MOST_CHANGES
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload
from costmodel.search.spaces._base import DrawnConfigs, Param, SearchSpace, suggest_one

Constraint = Callable[[Mapping[str, Any]], bool]
Condition = tuple[str, Sequence[Any]]

# Up to this many combinations are enumerated, so that none is missed.
_MOST_LISTED = 20_000
# Rounds of draws: if few configs meet the constraints, fewer than requested are returned.
_MOST_DRAWS = 4
# A number moves by up to a quarter of its range.
_REACH = 0.25
_ANYWHERE = Platform(Device("unnamed", "cpu", "", 0, 0.0), "whole", 0, 0)


class DeclaredSpace(SearchSpace):
    """A space of parameters, conditions and constraints, for any function that can be timed.

    A parameter with a condition exists only if the parameter that it depends on exists and has one of the
    given values; otherwise it is absent. Features are made from the decisions alone, so that the unit of a
    parameter does not matter: a number becomes its position in its range, in [0, 1], by its logarithm where
    its distribution says ``log``; a choice among numbers becomes its rank among them, in [0, 1]; every other
    choice gets its own column. Features of an absent parameter are NaN.

    Args:
        name: Name of the function to tune. The space's identity is made from name, parameters, conditions and
            platforms.
        parameters: Optuna distribution of each parameter. A parameter must come before those that depend on
            it. Choices are numbers, strings or booleans.
        when: Condition of each conditional parameter: the parameter that it depends on, and the values of
            that parameter for which it exists.
        constraints: Functions of a config's decisions that must all return true. Absent parameters are not
            among the decisions. All processes that share a study must use the same constraints.
        platforms: Platforms on which the function runs; they only affect what is reported.

    Raises:
        InvalidArgumentError: There are no parameters, one has no distribution, or a condition is not a pair
            or names a parameter that does not come before its own.

    Example:
        >>> space = DeclaredSpace(
        ...     "saxpy",
        ...     {
        ...         "staged": CategoricalDistribution([False, True]),
        ...         "threads": IntDistribution(32, 1024, step=32),
        ...         "tile": CategoricalDistribution([8, 16, 32]),
        ...     },
        ...     when={"tile": ("staged", [True])},
        ...     constraints=[lambda config: config["threads"] * config.get("tile", 1) <= 8192],
        ... )
        >>> space.size
        108
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, BaseDistribution],
        *,
        when: Mapping[str, Condition] | None = None,
        constraints: Sequence[Constraint] = (),
        platforms: Sequence[Platform] = (_ANYWHERE,),
    ) -> None:
        self.name = check_text("the name of a space", name)
        self.platforms: tuple[Platform, ...] = check_items("platforms", platforms, Platform, "platforms")
        check_kind("parameters", parameters, Mapping, "distributions by the name of a parameter")
        check_kind("when", when, Mapping | None, "conditions by the name of a parameter")
        self._parameters = dict(parameters)
        self._when = dict(when or {})
        self._constraints: tuple[Constraint, ...] = check_items(
            "constraints",
            constraints,
            Callable,  # type: ignore[arg-type]
            "functions of a config",
        )
        _check(self._parameters, self._when)
        self._workload = Workload(f"declared.{content_id(name)}", {}, "")

    @property
    def family(self) -> str:
        """Family of the candidates, made from the name."""
        return self._workload.kind

    def holds(self, candidate: Candidate) -> bool:
        """Return whether a candidate is of the space with this name."""
        return candidate.workload == self._workload

    @cached_property
    def space_id(self) -> str:
        """Content address of name, parameters, conditions and platforms; constraints do not enter."""
        parameters = {name: distribution_to_json(d) for name, d in self._parameters.items()}
        conditions = {name: (parent, list(values)) for name, (parent, values) in self._when.items()}
        return content_id(self.name, parameters, conditions, *(p.platform_id for p in self.platforms))

    @property
    def size(self) -> int | None:
        """Number of configs that meet the constraints; None if there are too many to enumerate."""
        return None if self._all is None else len(self._all)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distribution of each parameter."""
        return dict(self._parameters)

    def suggest(self, trial: Trial) -> Config:
        """Return a trial's config; one from another sampler may break a constraint (see ``candidate``)."""
        decisions: dict[str, Any] = {}
        for name, distribution in self._parameters.items():
            if self._exists(name, decisions):
                decisions[name] = suggest_one(trial, name, distribution)
        return Config(decisions)

    def params(self, config: Config) -> dict[str, Param]:
        """Return the config's decisions as Optuna parameters."""
        return {name: config.decisions[name] for name in self._parameters if name in config.decisions}  # type: ignore[misc]

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these parameters, in the order of declaration."""
        decisions: dict[str, Any] = {}
        for name, distribution in self._parameters.items():
            if self._exists(name, decisions):
                if name not in params or not _holds(distribution, params[name]):
                    raise CostModelError(
                        f"Parameter {name} of {self.name} must be in {distribution}, but got "
                        f"{params.get(name)!r}. Use a sampler of this space, and a new study for a new space."
                    )
                decisions[name] = params[name]
        return Config(decisions)

    def draw(self, size: int, rng: np.random.Generator) -> DrawnConfigs:
        """Draw random configs, each value equally likely, or return all configs of a small space in order."""
        configs = self._random(size, rng) if self._all is None else self._all
        if not configs:
            raise CostModelError(
                f"Some config of {self.name} must meet its constraints, but none was found. Relax them."
            )
        return DrawnConfigs(configs, self.features(configs))

    def neighbours(self, config: Config, count: int, rng: np.random.Generator) -> list[Config]:
        """Return configs with one to three changes that meet the constraints; none for a small space."""
        if self._all is not None:
            return []
        changed = (self._changed(config, rng) for _ in range(count))
        found = {c.config_id: c for c in changed if self._meets_constraints(c)}
        found.pop(config.config_id, None)
        return list(found.values())

    def features(self, configs: Sequence[Config]) -> FloatArray:
        """Return ``(n, b, d)`` features of the decisions, the same on each platform."""
        columns = [
            column
            for name, distribution in self._parameters.items()
            for column in _columns(distribution, [config.decisions.get(name) for config in configs])
        ]
        values = np.array(columns, dtype=np.float64).reshape(len(columns), len(configs)).T
        return np.repeat(values[:, None], len(self.platforms), axis=1)

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config.

        Raises:
            InvalidConfigError: The config breaks a constraint.
        """
        if not self._meets_constraints(config):
            raise InvalidConfigError(
                f"A config of {self.name} must meet all constraints, but got {config.decisions}."
            )
        return Candidate(self._workload, f"declared-{self.name}", config)

    def on(self, *platforms: Platform) -> "DeclaredSpace":
        """Return the same space on other platforms; the features are the same."""
        return DeclaredSpace(
            self.name, self._parameters, when=self._when, constraints=self._constraints, platforms=platforms
        )

    @cached_property
    def _all(self) -> list[Config] | None:
        """Every config that meets the constraints; None if there are too many combinations."""
        values = [_values(distribution) for distribution in self._parameters.values()]
        if any(each is None for each in values):
            return None
        if math.prod(len(each) for each in values if each) > _MOST_LISTED:
            return None
        found = {}
        for combination in itertools.product(*(each for each in values if each)):
            config = self._config_where(dict(zip(self._parameters, combination, strict=True)))
            found[config.config_id] = config
        return [config for config in found.values() if self._meets_constraints(config)]

    def _config_where(self, values: Mapping[str, Any]) -> Config:
        """The config with these values, without those of parameters that do not exist."""
        decisions: dict[str, Any] = {}
        for name, value in values.items():
            if self._exists(name, decisions):
                decisions[name] = value
        return Config(decisions)

    def _exists(self, name: str, decisions: Mapping[str, Any]) -> bool:
        """Whether a parameter exists where these were decided."""
        if name not in self._when:
            return True
        parent, values = self._when[name]
        return parent in decisions and decisions[parent] in values

    def _meets_constraints(self, config: Config) -> bool:
        return all(constraint(config.decisions) for constraint in self._constraints)

    def _random(self, size: int, rng: np.random.Generator) -> list[Config]:
        """Up to ``size`` distinct configs that meet the constraints."""
        distinct: dict[Any, Config] = {}
        seen: set[tuple[Any, ...]] = set()  # earlier, where draws begin to repeat each other
        for _ in range(_MOST_DRAWS):
            columns = [_draw(distribution, size, rng) for distribution in self._parameters.values()]
            for values in zip(*columns, strict=True):
                if values in seen:
                    continue
                config = self._config_where(dict(zip(self._parameters, values, strict=True)))
                if self._meets_constraints(config):
                    distinct.setdefault(tuple(config.decisions.items()), config)
            if len(distinct) >= size:
                break
            seen.update(zip(*columns, strict=True))
        return list(distinct.values())[:size]

    def _changed(self, config: Config, rng: np.random.Generator) -> Config:
        """A config with some values changed; what comes to exist by that is drawn."""
        values = dict(config.decisions)
        names = list(values)
        for place in rng.permutation(len(names))[: int(rng.integers(1, MOST_CHANGES + 1))]:
            name = names[int(place)]
            values[name] = _moved(self._parameters[name], values[name], rng)
        decisions: dict[str, Any] = {}
        for name, distribution in self._parameters.items():
            if self._exists(name, decisions):
                decisions[name] = values[name] if name in values else _draw(distribution, 1, rng)[0]
        return Config(decisions)


def _check(parameters: Mapping[str, BaseDistribution], when: Mapping[str, Condition]) -> None:
    names = [check_text("the name of a parameter", name) for name in parameters]
    other = {name: each for name, each in parameters.items() if not isinstance(each, BaseDistribution)}
    if other:
        raise InvalidArgumentError(
            "Each parameter must have a distribution of optuna.distributions, such as "
            f"CategoricalDistribution([16, 32]), but got {other}."
        )
    malformed = {name: each for name, each in when.items() if not _is_condition(each)}
    if malformed:
        raise InvalidArgumentError(
            "A condition must be a pair of an earlier parameter and its values, such as "
            f"('staged', [True]), but got {malformed}."
        )
    late = [
        name
        for name, (parent, _) in when.items()
        if name not in names or parent not in names[: names.index(name)]
    ]
    if not names or late:
        raise InvalidArgumentError(
            "A space must have parameters, and a condition must be of a parameter and name an earlier one, "
            f"but got parameters {names} and conditions {dict(when)}."
        )


def _is_condition(condition: object) -> bool:
    return (
        isinstance(condition, Sequence)
        and not isinstance(condition, str)
        and len(condition) == 2
        and isinstance(condition[1], Collection)
        and not isinstance(condition[1], str)
    )


def _values(distribution: BaseDistribution) -> Sequence[Any] | None:
    """Every value; None where there are infinitely or too many."""
    match distribution:
        case CategoricalDistribution(choices=choices):
            return choices
        case IntDistribution(low=low, high=high, step=step) if (high - low) // step < _MOST_LISTED:
            return range(low, high + 1, step)
        case FloatDistribution(low=low, high=high) if low == high:
            return [low]
        case FloatDistribution(low=low, high=high, step=float(step)) if (high - low) / step < _MOST_LISTED:
            return [min(high, low + step * i) for i in range(round((high - low) / step) + 1)]
    return None


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except ValueError:
        return False


def _draw(distribution: BaseDistribution, size: int, rng: np.random.Generator) -> list[Any]:
    """Random values; a number with a logarithmic distribution by its logarithm."""
    if isinstance(distribution, CategoricalDistribution):
        rows = rng.integers(len(distribution.choices), size=size).tolist()
        return [distribution.choices[row] for row in rows]
    if isinstance(distribution, IntDistribution) and not distribution.log:
        steps = (distribution.high - distribution.low) // distribution.step
        drawn: list[Any] = (
            distribution.low + distribution.step * rng.integers(steps + 1, size=size)
        ).tolist()
        return drawn
    return [_from_unit(distribution, position) for position in rng.random(size).tolist()]


def _moved(distribution: BaseDistribution, value: Any, rng: np.random.Generator) -> Decision:
    """A value nearby: another category, or a number some way up or down, an integer one step at least."""
    if isinstance(distribution, CategoricalDistribution):
        others = [choice for choice in distribution.choices if choice != value]
        return others[int(rng.integers(len(others)))] if others else value  # type: ignore[return-value]
    # Squared, so that most moves are short.
    reach = _REACH * float(rng.random()) ** 2 * (1.0 if rng.random() < 0.5 else -1.0)
    moved = _from_unit(distribution, min(1.0, max(0.0, _to_unit(distribution, value) + reach)))
    if moved == value and isinstance(distribution, IntDistribution):
        stepped = value + int(np.sign(reach)) * distribution.step
        return int(min(distribution.high, max(distribution.low, stepped)))
    return moved


def _to_unit(distribution: Any, value: float) -> float:
    """Position of a number in its range, in [0, 1]: by its logarithm where the distribution says so."""
    low, high, value = (_scale(distribution, x) for x in (distribution.low, distribution.high, value))
    return (value - low) / (high - low) if high > low else 0.0


def _from_unit(distribution: Any, position: float) -> int | float:
    """The number at a position in [0, 1] of its range; all numbers on a grid take up equal parts of it."""
    half = 0.5 * (distribution.step or 0.0)
    low, high = _scale(distribution, distribution.low - half), _scale(distribution, distribution.high + half)
    value = low + position * (high - low)
    value = math.exp(value) if distribution.log else value
    if distribution.step:
        value = distribution.low + round((value - distribution.low) / distribution.step) * distribution.step
    value = min(distribution.high, max(distribution.low, value))
    return int(value) if isinstance(distribution, IntDistribution) else float(value)


def _scale(distribution: IntDistribution | FloatDistribution, value: float) -> float:
    return math.log(value) if distribution.log else float(value)


def _columns(distribution: BaseDistribution, values: Sequence[Any]) -> Iterator[list[float]]:
    """The columns of one parameter, NaN where it is absent."""
    if isinstance(distribution, IntDistribution | FloatDistribution):
        yield [math.nan if value is None else _to_unit(distribution, value) for value in values]
    elif isinstance(distribution, CategoricalDistribution):
        choices = distribution.choices
        if all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices):
            rank = {choice: i for i, choice in enumerate(sorted(set(choices)))}  # type: ignore[type-var]
            last = max(1, len(rank) - 1)
            yield [math.nan if value is None else rank[value] / last for value in values]
        else:
            for choice in choices:
                yield [math.nan if value is None else float(value == choice) for value in values]
