"""A table of some kernels in the columns of a table of more of them, such as those that a model expects."""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.features._table import FeatureTable

# In the names of columns that only one kind of foreign kernel has, see ``_foreign``: it ends the
# name of the column that tells the kind, and stands before the name of a parameter.
_OF_KIND, _VALUE = "/", "="


def in_columns(table: FeatureTable, columns: Sequence[str] | None) -> FloatArray:
    """``(n, d)`` values of a table of one kind of kernel, in the columns of a table of more of them.

    What only other kernels have is as it would be beside them: 0 where it tells a kind or a chosen value,
    else NaN. What only these kernels have is left out, as nothing was learned of it.

    Raises:
        CostModelError: A column of all kernels, or the one that tells this kind, is in one table only.
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
    kinds = tuple(name for name in names if name.endswith(_OF_KIND))
    found = np.full((len(table.values), len(columns)), np.nan)
    for i, name in enumerate(columns):
        if name in names:
            found[:, i] = table.values[:, names.index(name)]
        elif name.endswith(_OF_KIND) or (_VALUE in name and name.startswith(kinds)):
            found[:, i] = 0.0
    return found
