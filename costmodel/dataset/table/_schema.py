"""The columns of a dataset file: one row a measurement, complete in itself.

A file has the columns ``SCHEMA``, or ``DATA_SCHEMA``; see ``_launches``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costmodel.dataset.table._columns import lengths_of
from costmodel.records._candidate import DATA_FACTS

FILE_NAME = "measurements.parquet"
PARTS_NAME = "measurements"  # the folder, where they are in parts


def _field(name: str, kind: Any, description: str, unit: str = "") -> Any:
    return pa.field(name, kind, nullable=False, metadata={"description": description, "unit": unit})


_LAUNCHES = "the kernels that one run launches; empty where not known"
_LAUNCH = pa.struct(
    [
        _field("blocks", pa.int64(), "thread blocks in the grid", "1"),
        _field("threads_per_block", pa.int64(), "threads in a block", "1"),
        _field("vthreads", pa.int64(), "virtual threads that a thread runs one after the other", "1"),
        _field("shared_bytes", pa.int64(), "shared memory of a block", "B"),
        _field("local_bytes", pa.int64(), "local buffers of a thread, meant for registers", "B"),
        _field("global_load_bytes", pa.int64(), "read from device memory by all threads", "B"),
        _field("global_store_bytes", pa.int64(), "written to device memory by all threads", "B"),
        _field("shared_load_bytes", pa.int64(), "read from shared memory by all threads", "B"),
        _field("shared_store_bytes", pa.int64(), "written to shared memory by all threads", "B"),
        _field("flops", pa.int64(), "floating-point operations of all threads", "1"),
        _field("tensor_flops", pa.int64(), "the part of flops that Tensor Cores do", "1"),
        _field("vector_bytes", pa.int64(), "widest vectorised access to device memory", "B"),
        _field("unroll_steps", pa.int64(), "loop steps that the compiler may unroll", "1"),
    ]
)
# ``DATA_FACTS`` of records, each after the other fields of a launch.
_DATA = [
    _field("device_bytes", pa.int64(), "through device memory, as the data decide; 0 where not said", "B"),
    _field("atomics", pa.int64(), "atomic operations of all threads on device memory", "1"),
    _field("atomic_addresses", pa.int64(), "distinct addresses of these; 0 where not said", "1"),
    _field("busiest_block_bytes", pa.int64(), "moved by the block with most work; 0 where not said", "B"),
    _field("longest_chain", pa.int64(), "loads that the slowest thread waits for; 0 where not said", "1"),
]

_DEVICE = pa.struct(
    [
        _field("name", pa.string(), "name that the driver gives"),
        _field("kind", pa.string(), "runtime: cuda or cpu"),
        _field("architecture", pa.string(), "such as sm_90"),
        _field("sms", pa.int64(), "streaming multiprocessors of the whole device", "1"),
        _field("clock_mhz", pa.float64(), "highest clock of an SM", "MHz"),
        _field("bandwidth_gb_s", pa.float64(), "peak bandwidth of device memory", "GB/s"),
        _field("l2_bytes", pa.int64(), "last-level cache", "B"),
        _field("shared_bytes_per_sm", pa.int64(), "shared memory of an SM", "B"),
        _field("registers_per_sm", pa.int64(), "32-bit registers of an SM", "1"),
        _field("max_threads_per_sm", pa.int64(), "resident threads of an SM", "1"),
        _field("max_blocks_per_sm", pa.int64(), "resident blocks of an SM", "1"),
        _field("fp32_lanes_per_sm", pa.int64(), "float32 multiply-adds that an SM can start in a clock", "1"),
        _field("tensor_flops_per_sm_clock", pa.int64(), "float16 operations of Tensor Cores in a clock", "1"),
    ]
)

_RESOURCES = pa.struct(
    [
        _field("registers_per_thread", pa.int64(), "32-bit registers of a thread", "1"),
        _field("stack_bytes", pa.int64(), "local memory of a thread, spilled registers included", "B"),
    ]
)

_STATE = pa.struct(
    [
        _field("clock_mhz", pa.float64(), "clock of the SMs that the driver names", "MHz"),
        _field("spin_clock_mhz", pa.float64(), "cycles that an SM counts in a microsecond", "MHz"),
        _field("launch_s", pa.float64(), "from one launch of an empty kernel to the next, in a graph", "s"),
        _field("memory_clock_mhz", pa.float64(), "clock of the device memory", "MHz"),
        _field("temperature_c", pa.float64(), "temperature of the chip", "degree Celsius"),
        _field("power_w", pa.float64(), "power that the board draws", "W"),
        _field("throttle_reasons", pa.list_(pa.string()), "why the clock is held below what it could be"),
    ]
)

SCHEMA = pa.schema(
    [
        _field("workload", pa.string(), "operator and shape, such as matmul-m128-n768-k3072"),
        _field("kind", pa.string(), "operator kind"),
        _field("dims", pa.string(), "size of each dimension, JSON object"),
        _field("dtype", pa.string(), "element type of inputs and output"),
        _field("candidate_id", pa.string(), "content address of workload, space and config"),
        _field("space", pa.string(), "space that the config was chosen from, with a hash of its definition"),
        _field("config", pa.string(), "the choice: value of each parameter, JSON object"),
        _field("launches", pa.list_(_LAUNCH), _LAUNCHES),
        _field("platform_id", pa.string(), "content address of device name, isolation and granted SMs"),
        _field("device", _DEVICE, "the device model; 0 where its driver does not say"),
        _field("isolation", pa.string(), "how the SMs were set apart: whole, green_context, mps or threads"),
        _field("sms_requested", pa.int64(), "SMs asked for", "1"),
        _field("sms_granted", pa.int64(), "SMs that the driver gave", "1"),
        _field("software", pa.string(), "versions that can change a latency, JSON object"),
        _field("outcome", pa.string(), "ok, or how it failed"),
        _field(
            "latencies_s",
            pa.list_(pa.float64()),
            "time of one run, one number a repeat; empty unless ok",
            "s",
        ),
        _field("runs_per_repeat", pa.int64(), "back-to-back runs that each repeat averages over", "1"),
        _field("visit", pa.int64(), "0: first measurement on this platform, 1: the A/A repeat", "1"),
        _field("l2_policy", pa.string(), "warm: inputs stay in cache between runs; flushed: they do not"),
        _field("kernel_hash", pa.string(), "content address of the generated source; empty where not known"),
        _field("resources", pa.list_(_RESOURCES), "what the compiler gave each kernel; empty if not known"),
        _field("before", _STATE, "the device right before the repeats; 0 where unknown"),
        _field("after", _STATE, "the device right after the repeats; 0 where unknown"),
        _field("attempts", pa.int64(), "how often it was measured until it was not suspicious", "1"),
        _field("board", pa.string(), "short id of the physical board; empty where unknown"),
        _field("co_runners", pa.list_(pa.string()), "candidates that ran on other partitions meanwhile"),
        _field("measured_at", pa.string(), "UTC time, ISO 8601"),
        _field("error", pa.string(), "first line of the failure's message; empty when ok"),
        _field("schema_version", pa.int64(), "version of the record", "1"),
    ],
    metadata={"format": "costmodel measurements 2"},
)

# The columns of files of which any launch says what data decide, and of no others.
DATA_SCHEMA = SCHEMA.set(
    SCHEMA.get_field_index("launches"),
    _field("launches", pa.list_(pa.struct([*_LAUNCH, *_DATA])), _LAUNCHES),
).with_metadata({"format": "costmodel measurements 3"})


_LAUNCH_COLUMN = "launches"


def has_data_facts(table: Any) -> bool:
    """Tell whether the launches of a table have the columns ``DATA_FACTS``."""
    return bool(table.schema.field(_LAUNCH_COLUMN).type.value_type.get_field_index(DATA_FACTS[0]) >= 0)


def schema_of(table: Any) -> Any:
    """Return the columns of the files that such launches go to: ``SCHEMA`` or ``DATA_SCHEMA``."""
    return DATA_SCHEMA if has_data_facts(table) else SCHEMA


def widen(table: Any) -> Any:
    """Return the same table with ``DATA_FACTS``, which are 0 where they were not there."""
    return table if has_data_facts(table) else _rebuilt(table, DATA_SCHEMA.field(_LAUNCH_COLUMN))


def narrow(table: Any) -> Any:
    """Return the same table without ``DATA_FACTS`` if no launch says any of them."""
    if not has_data_facts(table):
        return table
    launches = table[_LAUNCH_COLUMN].combine_chunks().flatten()
    said = any(pc.any(pc.not_equal(pc.struct_field(launches, name), 0)).as_py() for name in DATA_FACTS)
    return table if said else _rebuilt(table, SCHEMA.field(_LAUNCH_COLUMN))


def unify(tables: Sequence[Any]) -> list[Any]:
    """Return the same tables, all of one type: with ``DATA_FACTS`` if any of them has these."""
    return list(map(widen, tables)) if any(map(has_data_facts, tables)) else list(tables)


def _rebuilt(table: Any, field: Any) -> Any:
    """Return the table with launches of another type; 0 where there was no such field."""
    lists = table[_LAUNCH_COLUMN].combine_chunks()
    launches = lists.flatten()
    held = dict(zip(launches.type.names, launches.flatten(), strict=True))
    zeros = pa.array(np.zeros(len(launches), np.int64))
    kind = field.type.value_type
    changed = pa.StructArray.from_arrays([held.get(name, zeros) for name in kind.names], fields=list(kind))
    ends = pa.array(np.append(0, np.cumsum(lengths_of(lists))), pa.int32())
    column = pa.ListArray.from_arrays(ends, changed, type=field.type)
    return table.set_column(table.schema.get_field_index(_LAUNCH_COLUMN), field, column)
