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
        """Positions of the columns of these groups."""
        return positions(self.columns, *groups)

    def index(self, name: str) -> int:
        """Position of the column with this name.

        Raises:
            ValueError: No column has it.
        """
        return [column.name for column in self.columns].index(name)
