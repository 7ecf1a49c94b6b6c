"""Parameters of a space: what can be chosen, how to draw it, change it and hand it to Optuna."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.records._candidate import Decision


class Suggester(Protocol):
    """The part of ``optuna.Trial`` that a space needs."""

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """An integer in ``[low, high]``."""
        ...

    def suggest_categorical(self, name: str, choices: Sequence[int]) -> int:
        """One of ``choices``."""
        ...


@dataclass(frozen=True)
class Recorded:
    """A trial that proposes what was recorded of another.

    Attributes:
        params: Value of each parameter.
    """

    params: Mapping[str, Any]

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """The recorded integer.

        Raises:
            CostModelError: It is missing, or not in ``[low, high]``.
        """
        return self._among(name, range(low, high + 1))

    def suggest_categorical(self, name: str, choices: Sequence[int]) -> int:
        """The recorded choice.

        Raises:
            CostModelError: It is missing, or none of ``choices``.
        """
        return self._among(name, choices)

    def _among(self, name: str, choices: Sequence[int]) -> int:
        value = self.params.get(name)
        if value not in choices:
            raise CostModelError(
                f"Parameter {name} must be one of {list(choices)}, but got {value}. "
                "Use a sampler of this space, and a new study for a new space."
            )
        assert value is not None  # None is no choice
        return int(value)


class SketchParameter(Protocol):
    """One named decision of a space."""

    @property
    def name(self) -> str:
        """Name, unique in its space."""
        ...

    def contains(self, value: Decision) -> bool:
        """Whether ``value`` can be chosen."""
        ...

    def sample(self, rng: np.random.Generator) -> Decision:
        """A random value."""
        ...

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """As many random values, as a column of a ``ConfigBatch``."""
        ...

    def mutate(self, value: Decision, rng: np.random.Generator) -> Decision:
        """A random neighbour of ``value``; ``value`` itself where it has none."""
        ...

    def suggest(self, trial: Suggester, prefix: str = "") -> Decision:
        """The value that ``trial`` proposes."""
        ...

    def suggested(self, prefix: str = "") -> dict[str, int | tuple[int, ...]]:
        """What ``suggest`` may ask for by name: the highest index from 0, or the choices."""
        ...

    def params(self, value: Decision, prefix: str = "") -> dict[str, int]:
        """What ``suggest`` has to be told, by name, to give ``value``."""
        ...


@dataclass(frozen=True)
class Categorical:
    """One of a few numbers.

    Attributes:
        name: Name in the space.
        choices: The numbers, in the order of the schedule's candidates.
        probabilities: Weight of each when drawn at random.
    """

    name: str
    choices: tuple[int, ...]
    probabilities: tuple[float, ...]

    def contains(self, value: Decision) -> bool:
        """Whether ``value`` is one of the choices."""
        return value in self.choices

    def sample(self, rng: np.random.Generator) -> int:
        """A choice drawn by the probabilities."""
        return int(rng.choice(self.choices, p=np.divide(self.probabilities, sum(self.probabilities))))

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """``(size,)`` choices drawn by the probabilities."""
        weights = np.divide(self.probabilities, sum(self.probabilities))
        return rng.choice(np.array(self.choices, dtype=np.int64), size=size, p=weights)

    def mutate(self, value: Decision, rng: np.random.Generator) -> Decision:
        """Any other choice."""
        others = [choice for choice in self.choices if choice != value]
        return int(rng.choice(others)) if others else value

    def suggest(self, trial: Suggester, prefix: str = "") -> int:
        """A choice by ``suggest_categorical``."""
        return trial.suggest_categorical(prefix + self.name, self.choices)

    def suggested(self, prefix: str = "") -> dict[str, int | tuple[int, ...]]:
        """One parameter with the choices."""
        return {prefix + self.name: self.choices}

    def params(self, value: Decision, prefix: str = "") -> dict[str, int]:
        """The choice."""
        assert isinstance(value, int)
        return {prefix + self.name: value}


@dataclass(frozen=True)
class Tile:
    """The factors into which a loop is split, outermost first; their product is the loop's extent.

    Attributes:
        name: Name in the space.
        extent: Iterations of the loop.
        parts: Number of factors.
        max_innermost: Largest last factor.
    """

    name: str
    extent: int
    parts: int
    max_innermost: int

    def contains(self, value: Decision) -> bool:
        """Whether ``value`` is a tuple of ``parts`` factors with the right product and innermost factor."""
        return (
            isinstance(value, tuple)
            and len(value) == self.parts
            and all(factor >= 1 for factor in value)
            and math.prod(value) == self.extent
            and value[-1] <= self.max_innermost
        )

    def sample(self, rng: np.random.Generator) -> tuple[int, ...]:
        """A factorization, each equally likely."""
        every = factorizations(self.extent, self.parts, self.max_innermost)
        return every[int(rng.integers(len(every)))]

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """``(size, parts)`` factorizations, each equally likely."""
        every = _factor_table(self.extent, self.parts, self.max_innermost)
        return every[rng.integers(len(every), size=size)]

    def mutate(self, value: Decision, rng: np.random.Generator) -> Decision:
        """Move a divisor of one factor to another, as MetaSchedule's MutateTileSize does."""
        assert isinstance(value, tuple)
        moves = [
            moved
            for source in range(self.parts)
            for target in range(self.parts)
            if source != target
            for divisor in divisors(value[source])[1:]
            if self.contains(moved := _move(value, source, target, divisor))
        ]
        return moves[int(rng.integers(len(moves)))] if moves else value

    def suggest(self, trial: Suggester, prefix: str = "") -> tuple[int, ...]:
        """Factors from the innermost outwards: each is an index into the divisors of what is left.

        Every proposal is a valid factorization, and near indices are near factors.
        """
        left, factors = self.extent, []
        for part in range(self.parts - 1, 0, -1):
            options = self._options(part, left)
            factors.append(options[trial.suggest_int(f"{prefix}{self.name}.{part}", 0, len(options) - 1)])
            left //= factors[-1]
        return (left, *reversed(factors))

    def suggested(self, prefix: str = "") -> dict[str, int | tuple[int, ...]]:
        """One index for each factor but the outermost, up to that of the largest divisor."""
        return {
            f"{prefix}{self.name}.{part}": len(self._options(part, self.extent)) - 1
            for part in range(self.parts - 1, 0, -1)
        }

    def params(self, value: Decision, prefix: str = "") -> dict[str, int]:
        """The index of each factor among the divisors of what the inner ones leave."""
        assert isinstance(value, tuple)
        left, found = self.extent, {}
        for part in range(self.parts - 1, 0, -1):
            found[f"{prefix}{self.name}.{part}"] = self._options(part, left).index(value[part])
            left //= value[part]
        return found

    def _options(self, part: int, left: int) -> list[int]:
        """Factors that a part can have where ``left`` is to be shared with those outside of it."""
        limit = self.max_innermost if part == self.parts - 1 else left
        return [divisor for divisor in divisors(left) if divisor <= limit]


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors in rising order."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


@cache
def factorizations(extent: int, parts: int, max_innermost: int) -> tuple[tuple[int, ...], ...]:
    """All ordered factorizations of ``extent`` into ``parts`` factors with a bounded last one."""
    if parts == 1:
        return ((extent,),) if extent <= max_innermost else ()
    return tuple(
        (divisor, *rest)
        for divisor in divisors(extent)
        for rest in factorizations(extent // divisor, parts - 1, max_innermost)
    )


@cache
def _factor_table(extent: int, parts: int, max_innermost: int) -> NDArray[np.int64]:
    """``factorizations`` as ``(number, parts)``."""
    return np.array(factorizations(extent, parts, max_innermost), dtype=np.int64).reshape(-1, parts)


def _move(value: tuple[int, ...], source: int, target: int, divisor: int) -> tuple[int, ...]:
    """``value`` with ``divisor`` taken from one factor and given to another."""
    moved = list(value)
    moved[source] //= divisor
    moved[target] *= divisor
    return tuple(moved)
