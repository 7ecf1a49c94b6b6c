"""Traces as SQLite databases: ``nsys export``, RPD (``rocpd`` of rocmProfileData) and rocpd of rocprofv3.

Only tables are asked, never views, and columns that a version lacks are empty.
"""

import re
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.opening import open_sqlite
from costmodel.planner.graphs._trace_events import (
    ANNOTATION,
    COPY,
    KERNEL,
    MEMSET,
    OPERATOR,
    RUNTIME,
    WAIT,
    Args,
    DeviceProperties,
    Event,
    Trace,
    make_event,
)
from costmodel.reading import refusing

if TYPE_CHECKING:
    import sqlite3

_REMEDY = "Export it again."
_US = 1e-3  # of a nanosecond


def read_database(path: Path) -> Trace | None:
    """Read a database; None if the file is none.

    Raises:
        CostModelError: It is damaged, or none of those that are known.
    """
    what, form = "a database of a profiler", "profiler-database"
    with refusing(path, what, _REMEDY, form=form), open_sqlite(path) as connection:
        if connection is None:
            return None
        tables = _Tables(connection)
        for table, read in _READERS.items():
            if tables.find(table):
                return read(tables)
    raise CostModelError(
        f"A database of a profiler must have a table of {', '.join(_READERS)}, but {path} has none of them. "
        "Make one with `nsys export --type sqlite` or `rocprofv3 --output-format rocpd`."
    )


class _Tables:
    """Tables of a database; rocprofv3 writes an identity behind their names."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._connection = connection
        named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._names = [str(name) for (name,) in named]

    def find(self, table: str) -> list[str]:
        """Names of a table: its own, and those with an identity behind it."""
        pattern = re.compile(re.escape(table) + r"(_[0-9a-f_]{32,})?")
        return [name for name in self._names if pattern.fullmatch(name)]

    def rows(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        """Rows of some columns, each None where it is missing."""
        for name in self.find(table):
            known = {str(each[1]) for each in self._connection.execute(f"PRAGMA table_info({_quoted(name)})")}
            wanted = ", ".join(_quoted(each) if each in known else "NULL" for each in columns.split())
            yield from self._connection.execute(f"SELECT {wanted} FROM {_quoted(name)}")  # noqa: S608 (quoted)

    def texts(self, table: str, columns: str = "id string") -> dict[Any, str]:
        """Texts by their numbers."""
        return {number: str(text) for number, text in self.rows(table, columns) if text}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _span(start: Any, end: Any) -> tuple[Any, Any]:
    """Start and duration in microseconds; None where they are no numbers, so that they are counted."""
    is_timed = isinstance(start, int) and isinstance(end, int)
    return (start * _US, (end - start) * _US) if is_timed else (None, None)


# ---- Nsight Systems

# Of CUPTI: copies by where from and to, and what a call waits for.
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_EVENT_WAIT, _STREAM_EVENT, _STREAM_WAIT = 1, 2, 3
# Of ranges that a thread pushes and pops, and of those that are started and ended.
_RANGES = (59, 60)
_ON_DEVICE = "start end deviceId streamId correlationId globalPid graphNodeId"
_LAUNCH = "gridX gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory dynamicSharedMemory"


def _read_nsys(tables: _Tables) -> Trace:
    strings = tables.texts("StringIds", "id value")
    events = [
        *_kernels_of_nsys(tables, strings),
        *_copies_of_nsys(tables),
        *_calls_of_nsys(tables, strings),
        *_waits_of_nsys(tables),
    ]
    gpus = tables.rows("TARGET_INFO_GPU", "id name smCount threadsPerWarp maxWarpsPerSm maxRegistersPerSm")
    devices = {
        number: DeviceProperties(
            str(name or ""), sms or 0, warp or 32, (warps or 0) * (warp or 32), registers or 0
        )
        for number, name, sms, warp, warps, registers in gpus
    }
    return Trace(events, devices, has_host=any(event.cat == RUNTIME for event in events))


def _kernels_of_nsys(tables: _Tables, strings: dict[Any, str]) -> Iterator[Event]:
    columns = f"{_ON_DEVICE} demangledName shortName {_LAUNCH}"
    for row in tables.rows("CUPTI_ACTIVITY_KIND_KERNEL", columns):
        start, end, device, stream, correlation, process, node, long, short, *launch = row
        args = Args(
            correlation=correlation,
            stream=stream,
            device=device,
            grid=launch[:3],
            block=launch[3:6],
            registers=launch[6],
            shared_bytes=(launch[7] or 0) + (launch[8] or 0),
            graph_node_id=node,
        )
        name = strings.get(long) or strings.get(short)
        yield make_event(KERNEL, name, _span(start, end), (_process(process), stream), args)


def _copies_of_nsys(tables: _Tables) -> Iterator[Event]:
    for kind, table, column in ((COPY, "MEMCPY", "copyKind"), (MEMSET, "MEMSET", "value")):
        for row in tables.rows(f"CUPTI_ACTIVITY_KIND_{table}", f"{_ON_DEVICE} {column}"):
            start, end, device, stream, correlation, process, node, what = row
            args = Args(correlation=correlation, stream=stream, device=device, graph_node_id=node)
            name = (
                f"[CUDA memcpy {_COPIES.get(what, 'of another kind')}]" if kind == COPY else "[CUDA memset]"
            )
            yield make_event(kind, name, _span(start, end), (_process(process), stream), args)


def _calls_of_nsys(tables: _Tables, strings: dict[Any, str]) -> Iterator[Event]:
    """Calls of the runtime, whose names end with the version of their interface, and ranges of NVTX."""
    columns = "start end globalTid correlationId nameId"
    for start, end, thread, correlation, name in tables.rows("CUPTI_ACTIVITY_KIND_RUNTIME", columns):
        called = re.sub(r"_(v\d+|ptsz|ptds)+", "", strings.get(name, ""))
        args = Args(correlation=correlation)
        yield make_event(RUNTIME, called, _span(start, end), (_process(thread), _thread(thread)), args)
    ranges = tables.rows("NVTX_EVENTS", "start end globalTid eventType text textId")
    for start, end, thread, kind, text, number in ranges:
        if kind in _RANGES and end is not None:
            name = text or strings.get(number)
            yield make_event(ANNOTATION, name, _span(start, end), (_process(thread), _thread(thread)), Args())


def _waits_of_nsys(tables: _Tables) -> Iterator[Event]:
    """What calls wait for: a stream, or the last record of an event before it."""
    records = dict[Any, list[tuple[Any, Any]]]()
    columns = "globalPid eventId correlationId streamId"
    for process, event, correlation, stream in tables.rows("CUPTI_ACTIVITY_KIND_CUDA_EVENT", columns):
        records.setdefault((process, event), []).append((correlation or 0, stream))
    columns = "start end globalPid deviceId streamId correlationId syncType eventId"
    for row in tables.rows("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns):
        start, end, process, device, stream, correlation, kind, event = row
        before = [each for each in records.get((process, event), []) if each[0] < (correlation or 0)]
        of_event = kind in (_EVENT_WAIT, _STREAM_EVENT) and before
        if kind != _STREAM_WAIT and not of_event:
            continue
        record, recorded_on = max(before) if of_event else (None, None)
        args = Args(
            correlation=correlation,
            stream=stream,
            device=device,
            wait_on_stream=recorded_on,
            wait_on_record=record,
        )
        yield make_event(WAIT, "wait", _span(start, end), (_process(process), stream), args)


def _process(number: Any) -> Any:
    """The process of a global number of a process or thread."""
    return (number >> 24) & 0xFFFFFF if isinstance(number, int) else None


def _thread(number: Any) -> Any:
    return number & 0xFFFFFF if isinstance(number, int) else None


# ---- rocmProfileData

_KINDS_OF_RPD = {"KernelExecution": KERNEL, "Memcpy": COPY, "Memset": MEMSET}
# By who wrote a call; the tracer's own are left out.
_DOMAINS = {"hip": RUNTIME, "cuda": RUNTIME, "roctx": ANNOTATION, "nvtx": ANNOTATION, "torch": OPERATOR}


def _read_rpd(tables: _Tables) -> Trace:
    strings, texts = tables.texts("rocpd_string"), tables.texts("rocpd_ustring")
    called_by = {op: api for api, op in tables.rows("rocpd_api_ops", "api_id op_id")}
    events, processes = list[Event](), dict[Any, Any]()
    columns = "id pid tid start end apiName_id domain_id category_id args_id"
    for number, process, thread, start, end, name, domain, category, label in tables.rows(
        "rocpd_api", columns
    ):
        processes[number] = process
        called = strings.get(name, "")
        of_domain = strings.get(domain) or ("roctx" if called == "UserMarker" else "hip")
        kind = ANNOTATION if strings.get(category) == "user_scope" else _DOMAINS.get(of_domain)
        if kind == ANNOTATION and called == "UserMarker":
            called = texts.get(label) or strings.get(label, called)
        if kind:
            args = Args(correlation=number) if kind == RUNTIME else Args()
            events.append(make_event(kind, called, _span(start, end), (process, thread), args))
    columns = "id gpuId queueId start end description_id opType_id"
    for number, gpu, queue, start, end, text, kind_id in tables.rows("rocpd_op", columns):
        kind = _KINDS_OF_RPD.get(strings.get(kind_id, ""))
        if kind:  # barriers are waits
            api = called_by.get(number)
            args = Args(correlation=api, stream=queue, device=gpu)
            name = strings.get(text) or strings.get(kind_id)
            events.append(make_event(kind, name, _span(start, end), (processes.get(api, gpu), queue), args))
    return Trace(events, {}, has_host=any(event.cat == RUNTIME for event in events))


# ---- rocprofv3

_SIZES = "grid_size_x grid_size_y grid_size_z workgroup_size_x workgroup_size_y workgroup_size_z"


def _read_rocpd(tables: _Tables) -> Trace:
    strings = tables.texts("rocpd_string")
    kernels = tables.texts("rocpd_info_kernel_symbol", "id display_name")
    stacks, categories = dict[Any, Any](), dict[Any, str]()
    for number, category, stack in tables.rows("rocpd_event", "id category_id stack_id"):
        stacks[number], categories[number] = stack, strings.get(category, "")
    events = list[Event]()
    columns = f"pid agent_id queue_id stream_id kernel_id event_id start end {_SIZES}"
    for row in tables.rows("rocpd_kernel_dispatch", columns):
        process, agent, queue, stream, kernel, event, start, end, *sizes = row
        on = queue if stream is None else stream
        items, group = sizes[:3], sizes[3:]
        grid = [ceil((size or 1) / (each or 1)) for size, each in zip(items, group, strict=True)]
        args = Args(correlation=stacks.get(event), stream=on, device=agent, grid=grid, block=group)
        events.append(make_event(KERNEL, kernels.get(kernel), _span(start, end), (process, on), args))
    columns = "pid dst_agent_id queue_id stream_id name_id event_id start end"
    for process, agent, queue, stream, name, event, start, end in tables.rows("rocpd_memory_copy", columns):
        on = queue if stream is None else stream
        args = Args(correlation=stacks.get(event), stream=on, device=agent)
        events.append(make_event(COPY, strings.get(name, "copy"), _span(start, end), (process, on), args))
    columns = "pid tid start end name_id event_id"
    for process, thread, start, end, name, event in tables.rows("rocpd_region", columns):
        category = categories.get(event, "")
        kind = (
            RUNTIME if category.startswith("HIP") else ANNOTATION if category.startswith("MARKER") else None
        )
        if kind:
            args = Args(correlation=stacks.get(event)) if kind == RUNTIME else Args()
            events.append(make_event(kind, strings.get(name), _span(start, end), (process, thread), args))
    agents = tables.rows("rocpd_info_agent", "id product_name type")
    devices = {
        number: DeviceProperties(str(name or ""), warp_size=64)
        for number, name, kind in agents
        if kind == "GPU"
    }
    return Trace(events, devices, has_host=any(event.cat == RUNTIME for event in events))


_READERS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _read_nsys,
    "rocpd_op": _read_rpd,
    "rocpd_kernel_dispatch": _read_rocpd,
}
