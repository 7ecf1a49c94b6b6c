"""A feature: a column and the formula of its values, in one object."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from costmodel.arrays import FloatArray
from costmodel.columns import Column, Group, Tag

Facts = TypeVar("Facts")
# ``(n,)`` values, or one for all rows; NaN where a feature does not apply.
Values = FloatArray | float


@dataclass(frozen=True)
class Feature(Generic[Facts]):
    """One feature.

    Attributes:
        name: Short unique name.
        unit: Unit of the number, see ``Column``.
        group: What it describes.
        formula: Its values, of what is known of n rows.
        tags: What learners may use it for.
    """

    name: str
    unit: str
    group: Group
    formula: Callable[[Facts], Values]
    tags: tuple[Tag, ...] = ()

    @cached_property
    def column(self) -> Column:
        """Column by which learners see it."""
        return Column(self.name, self.unit, self.group, frozenset(self.tags))


def columns_of(features: Sequence[Feature[Facts]]) -> tuple[Column, ...]:
    """The column of each feature."""
    return tuple(feature.column for feature in features)


def values_of(features: Sequence[Feature[Facts]], facts: Facts) -> list[Values]:
    """The values of each feature."""
    return [feature.formula(facts) for feature in features]
