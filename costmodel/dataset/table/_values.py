"""What the rows of a dataset's file must hold to be measurements."""

from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costmodel.dataset.table._candidates import decode_decisions
from costmodel.dataset.table._lists import lengths_of
from costmodel.records._identity import content_id
from costmodel.records._measurement import SCHEMA_VERSION, Outcome
from costmodel.records._platform import DeviceKind, Isolation
from costmodel.records._workload import Workload

# What may stand in a column.
_ALLOWED = {
    "outcome": tuple(Outcome),
    "l2_policy": ("warm", "flushed"),
    "isolation": get_args(Isolation),
    "schema_version": (SCHEMA_VERSION,),
}


def check_ids(candidates: Any) -> None:
    """Check that each candidate's id is that of its workload, space and config.

    Raises:
        ValueError: One is not, or cannot be read.
    """
    workloads = {name: Workload.parse(name) for name in candidates["workload"].unique().to_pylist()}
    columns = (candidates[name].to_pylist() for name in ("candidate_id", "workload", "space", "config"))
    for said, workload, space, config in zip(*columns, strict=True):
        found = content_id(workloads[workload], space, decode_decisions(config))
        if found != said:
            raise ValueError(f"candidate_id of {config} of {workload} must be {found}, but got {said}")


def check_values(table: Any) -> None:
    """Check what the types of the columns of ``SCHEMA`` cannot say, of those that were read.

    Raises:
        ValueError: A row holds what no measurement can.
    """
    table.validate(full=True)
    for name in table.column_names:
        if _has_nulls(table[name].combine_chunks()):
            raise ValueError(f"{name} must have a value in each row and list")
    kinds = pc.struct_field(table["device"], "kind")
    for name, column, allowed in (
        *((name, table[name], allowed) for name, allowed in _ALLOWED.items() if name in table.column_names),
        ("device.kind", kinds, get_args(DeviceKind)),
    ):
        if not set(column.unique().to_pylist()) <= set(allowed):
            raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}")
    lists = table["latencies_s"].combine_chunks()
    ok, repeats = np.asarray(pc.equal(table["outcome"], Outcome.OK.value)), np.asarray(lists.flatten())
    if not np.array_equal(ok, lengths_of(lists) > 0):
        raise ValueError("latencies_s must be given exactly when ok")
    if not np.all(np.isfinite(repeats) & (repeats > 0)):
        raise ValueError("latencies_s must be positive and finite")


def _has_nulls(array: Any) -> bool:
    """Whether a column holds a null, at any depth."""
    if array.null_count:
        return True
    if pa.types.is_struct(array.type) or pa.types.is_list(array.type):
        inner = array.flatten()
        return any(map(_has_nulls, inner if isinstance(inner, list) else [inner]))
    return False
