"""Features of the parameters of families: of kernels that have parameters of their own.

What a parameter means is known to its family alone, so that each has columns of its own: one that tells the
family, and one a parameter, NaN in all other rows. Dimensions of a kernel of another suite have columns of
their own too, which all families that compute it share. Within one family configs can then be told apart and
compared between devices; two families are never mixed up.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.records._candidate import Candidate, ConfigBatch, Decision
from costmodel.records._workload import Workload

_Facts = dict[Column, float]

# Of millions of configs, few columns differ.
_column = lru_cache(maxsize=4096)(Column)


def parameter_features(candidates: Sequence[Candidate]) -> tuple[tuple[Column, ...], NDArray[np.float64]]:
    """Columns of the families among these candidates, by name, and their ``(n, d)`` values.

    Sizes and numeric parameters x count as ``sign(x) log2(1 + |x|)``; a text has one column a value, which is
    1 where it was chosen and 0 elsewhere in that family.
    """
    rows = [_facts(candidate) if candidate.family else {} for candidate in candidates]
    columns = tuple(sorted(set().union(*rows), key=lambda column: column.name))
    places = {column: i for i, column in enumerate(columns)}
    values = np.full((len(candidates), len(columns)), math.nan)
    for row, facts in zip(values, rows, strict=True):
        row[[places[column] for column in facts]] = list(facts.values())
    families = np.array([candidate.family for candidate in candidates], dtype=np.str_)
    for i, column in enumerate(columns):
        if column.unit == "1":
            is_owner = (families == _family(column)) | (column.group == "workload")
            values[np.isnan(values[:, i]) & is_owner, i] = 0.0
    return columns, values


def batch_parameters(batch: ConfigBatch, family: str) -> tuple[tuple[Column, ...], FloatArray]:
    """Return what ``parameter_features`` gives of all configs of a batch, which are of one family."""
    found = dict(_columns_of(batch, family))
    columns = tuple(sorted(found, key=lambda column: column.name))
    return columns, np.column_stack([np.broadcast_to(found[column], batch.size) for column in columns])


def parameter_columns(
    workload: Workload, family: str, parameters: Mapping[str, int | tuple[Any, ...]]
) -> tuple[Column, ...]:
    """The columns of all configs of a space, by name.

    Args:
        workload: What its kernels compute.
        family: What its parameters are known by.
        parameters: By name, the last index of a range or the choices, as ``DesignSpace.parameters`` has them.
    """
    found = {_family_column(family): 1.0, **_sizes(workload)}
    for name, choices in parameters.items():
        values = (0,) if isinstance(choices, int) else choices
        found |= dict(_choice(family, name, value) for value in values)
    return tuple(sorted(found, key=lambda column: column.name))


def _family_column(family: str) -> Column:
    """The column that tells a family, of which models are wrong in their own way."""
    return _column(f"{family}/", "1", "workload", frozenset({"interval"}))


def _columns_of(batch: ConfigBatch, family: str) -> Iterator[tuple[Column, Any]]:
    """Each column, and one value or ``(n,)`` values."""
    yield _family_column(family), 1.0
    yield from _sizes(batch.workload).items()
    for name, values in batch.decisions.items():
        if values.dtype.kind in "iufb":
            yield _column(f"{family}/{name}", "log2(1)", "config"), _log2(values.astype(np.float64))
        else:
            for choice in np.unique(values):
                yield _column(f"{family}/{name}={choice}", "1", "config"), np.float64(values == choice)


def _facts(candidate: Candidate) -> _Facts:
    """Return what is known of one candidate, by column."""
    family = candidate.family
    choices = dict(_choice(family, name, value) for name, value in candidate.config.decisions.items())
    return {_family_column(family): 1.0, **_sizes(candidate.workload), **choices}


def _sizes(workload: Workload) -> _Facts:
    """The dimensions of a kernel of another suite; those of an operator have columns for all families.

    They are of the workload, so that all families that compute it share them.
    """
    if not workload.is_foreign:
        return {}
    return {
        _column(f"{workload.kind}/{dim}", "log2(1)", "workload"): float(_log2(size))
        for dim, size in workload.dims.items()
    }


def _choice(family: str, name: str, value: Decision) -> tuple[Column, float]:
    """Column and value of one decision."""
    if isinstance(value, int | float):
        return _column(f"{family}/{name}", "log2(1)", "config"), float(_log2(value))
    return _column(f"{family}/{name}={value}", "1", "config"), 1.0


def _family(column: Column) -> str:
    return column.name.partition("/")[0]


def _log2(value: Any) -> Any:
    return np.copysign(np.log2(1.0 + np.abs(value)), value)
