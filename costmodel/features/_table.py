"""A feature table: numbers with names, units and groups."""

from dataclasses import dataclass

from costmodel.arrays import FloatArray
from costmodel.columns import Column, Group, positions


@dataclass(frozen=True)
class FeatureTable:
    """Features of n candidates.

    Attributes:
        values: ``(n, d)`` float64; NaN where a feature does not apply.
        columns: The d columns, in order.
    """

    values: FloatArray
    columns: tuple[Column, ...]

    def indices(self, *groups: Group) -> tuple[int, ...]:
        """Return the positions of the columns of these groups."""
        return positions(self.columns, *groups)

    def index(self, name: str) -> int:
        """Return the position of the column with this name.

        Raises:
            ValueError: No column has this name.
        """
        return [column.name for column in self.columns].index(name)
