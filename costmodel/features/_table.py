"""A feature table: numbers with names, units and groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Column, Group, positions
from costmodel.errors import CostModelError


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


# In the names of columns that only some kernels have. Of a family, see ``_parameters``, it ends the name of
# the column that tells the family, and stands before the name of a parameter; see also ``_data_facts``.
_OF_KIND, _VALUE = "/", "="


def in_columns(table: FeatureTable, columns: Sequence[str] | None) -> FloatArray:
    """``(n, d)`` values of a table of some kinds of kernels, in the columns of a table of more of them.

    What only other kernels have is as it would be beside them: 0 where it tells a kind, or a value that
    kernels of this kind may choose, else NaN. What only these kernels have is left out: nothing was learned
    of it.

    Raises:
        CostModelError: A column of all kernels, or one that tells a kind in the table, is in one table only.
    """
    names = [column.name for column in table.columns]
    if columns is None or list(columns) == names:
        return table.values
    alone = set(names) ^ set(columns)
    lost = {name for name in alone if _OF_KIND not in name or (name.endswith(_OF_KIND) and name in names)}
    if lost:
        raise CostModelError(
            f"A model must be of the {len(names)} feature columns that this version of costmodel makes of "
            f"these kernels, but it is of {len(columns)} others ({', '.join(sorted(lost)[:3])} differ). "
            "Train it again on such kernels, with `costmodel train`."
        )
    at = {name: i for i, name in enumerate(names)}
    owners = {name: table.values[:, i] == 1.0 for name, i in at.items() if name.endswith(_OF_KIND)}
    return np.column_stack(
        [
            table.values[:, at[name]] if name in at else _beside(name, owners, len(table.values))
            for name in columns
        ]
    )


def _beside(name: str, owners: Mapping[str, NDArray[np.bool_]], rows: int) -> FloatArray:
    """``(rows,)`` a column that only other kernels have.

    Args:
        name: Its name.
        owners: By the name of the column that tells a kind, whether each row is of it.
        rows: How many there are.
    """
    if name.endswith(_OF_KIND):
        return np.zeros(rows)
    kind, of_kind, parameter = name.partition(_OF_KIND)
    may_choose = owners.get(kind + of_kind) if _VALUE in parameter else None
    return np.full(rows, np.nan) if may_choose is None else np.where(may_choose, 0.0, np.nan)
