"""Launches in tables: with columns for what data decide where any launch says it, else without.

Kernels whose work does not depend on their data are most, and millions. In memory and in files their tables
are without ``DATA_FACTS``, and take part in what has them by ``alike`` and ``widened``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costmodel.dataset.table._lists import lengths_of
from costmodel.dataset.table._schema import DATA_SCHEMA, SCHEMA
from costmodel.records._candidate import DATA_FACTS

_LAUNCHES = "launches"


def has_data_facts(table: Any) -> bool:
    """Whether the launches of a table have the columns ``DATA_FACTS``."""
    return bool(table.schema.field(_LAUNCHES).type.value_type.get_field_index(DATA_FACTS[0]) >= 0)


def schema_of(table: Any) -> Any:
    """The columns of the files that such launches go to: ``SCHEMA`` or ``DATA_SCHEMA``."""
    return DATA_SCHEMA if has_data_facts(table) else SCHEMA


def widened(table: Any) -> Any:
    """The same table with ``DATA_FACTS``, which are 0 where they were not there."""
    return table if has_data_facts(table) else _rebuilt(table, DATA_SCHEMA.field(_LAUNCHES))


def narrowed(table: Any) -> Any:
    """The same table without ``DATA_FACTS`` if no launch says any of them."""
    if not has_data_facts(table):
        return table
    launches = table[_LAUNCHES].combine_chunks().flatten()
    said = any(pc.any(pc.not_equal(pc.struct_field(launches, name), 0)).as_py() for name in DATA_FACTS)
    return table if said else _rebuilt(table, SCHEMA.field(_LAUNCHES))


def alike(tables: Sequence[Any]) -> list[Any]:
    """The same tables, all of one type: with ``DATA_FACTS`` if any of them has these."""
    return list(map(widened, tables)) if any(map(has_data_facts, tables)) else list(tables)


def _rebuilt(table: Any, field: Any) -> Any:
    """The table with launches of another type; 0 where there was no such field."""
    lists = table[_LAUNCHES].combine_chunks()
    launches = lists.flatten()
    held = dict(zip(launches.type.names, launches.flatten(), strict=True))
    zeros = pa.array(np.zeros(len(launches), np.int64))
    kind = field.type.value_type
    changed = pa.StructArray.from_arrays([held.get(name, zeros) for name in kind.names], fields=list(kind))
    ends = pa.array(np.append(0, np.cumsum(lengths_of(lists))), pa.int32())
    column = pa.ListArray.from_arrays(ends, changed, type=field.type)
    return table.set_column(table.schema.get_field_index(_LAUNCHES), field, column)
