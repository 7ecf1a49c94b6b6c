"""A feature table: numbers with names, units and groups."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Group = Literal["workload", "platform", "config", "launch"]


@dataclass(frozen=True)
class Column:
    """One feature.

    Attributes:
        name: Short unique name.
        unit: Unit of the number; "1" for a ratio or count, "log2(...)" for a logarithm.
        group: What it describes. ``workload`` and ``platform`` columns are constant within a task, ``config``
            and ``launch`` columns are not.
    """

    name: str
    unit: str
    group: Group


@dataclass(frozen=True)
class FeatureTable:
    """Features of n candidates.

    Attributes:
        values: ``(n, d)`` float64; NaN where a feature does not apply.
        columns: The d columns, in order.
    """

    values: NDArray[np.float64]
    columns: tuple[Column, ...]

    def indices(self, *groups: Group) -> tuple[int, ...]:
        """Positions of the columns of these groups."""
        return tuple(i for i, column in enumerate(self.columns) if column.group in groups)

    def index(self, name: str) -> int:
        """Position of the column with this name."""
        return [column.name for column in self.columns].index(name)
