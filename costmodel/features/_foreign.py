"""Features of kernels of other suites, of which only sizes and parameters are known.

What a parameter means is known to its kernel alone, so that each kind of foreign kernel has columns of its
own: one that tells the kind, one a dimension and one a parameter, NaN in all other rows. Within one kernel
configs can then be told apart and compared between devices; kernels of two suites are never mixed up.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.columns import Column
from costmodel.records import Candidate, Decision, Workload

_Facts = dict[Column, float]


def foreign_features(candidates: Sequence[Candidate]) -> tuple[tuple[Column, ...], NDArray[np.float64]]:
    """Columns of the foreign kernels among these candidates, by name, and their ``(n, d)`` values.

    Sizes and numeric parameters x count as ``sign(x) log2(1 + |x|)``; a text has one column a value, which is
    1 where it was chosen and 0 elsewhere in that kernel.
    """
    rows = [_facts(candidate) if candidate.workload.is_foreign else {} for candidate in candidates]
    columns = tuple(sorted(set().union(*rows), key=lambda column: column.name))
    values = np.array([[facts.get(column, math.nan) for column in columns] for facts in rows])
    values = values.reshape(len(candidates), len(columns))
    for i, column in enumerate(columns):
        if column.unit == "1":
            owners = [candidate.workload.kind == _kind(column) for candidate in candidates]
            is_kind = column.group == "workload"
            values[np.isnan(values[:, i]) & (np.array(owners) | is_kind), i] = 0.0
    return columns, values


def _facts(candidate: Candidate) -> _Facts:
    """What is known of one candidate, by column."""
    workload = candidate.workload
    sizes = {
        Column(f"{workload.kind}/{dim}", "log2(1)", "workload"): _log2(size)
        for dim, size in workload.dims.items()
    }
    choices = dict(_choice(workload, name, value) for name, value in candidate.config.decisions.items())
    return {Column(f"{workload.kind}/", "1", "workload"): 1.0, **sizes, **choices}


def _choice(workload: Workload, name: str, value: Decision) -> tuple[Column, float]:
    """Column and value of one decision."""
    if isinstance(value, int | float):
        return Column(f"{workload.kind}/{name}", "log2(1)", "config"), _log2(value)
    return Column(f"{workload.kind}/{name}={value}", "1", "config"), 1.0


def _kind(column: Column) -> str:
    return column.name.partition("/")[0]


def _log2(value: float) -> float:
    return math.copysign(math.log2(1.0 + abs(value)), value)
