"""Traces as tables: kernels of ``nsys stats``, ``rocprofv3`` and ``rocprof``, one a row."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

from costmodel.errors import CostModelError
from costmodel.planner.graphs._trace_events import (
    COPY,
    KERNEL,
    MEMSET,
    RUNTIME,
    Args,
    DeviceProperties,
    Event,
    Trace,
    make_event,
    parse_number,
    read_whole,
)
from costmodel.reading import refusing

# Where the line with the names of columns may stand: programs print what they do before it.
_HEAD_BYTES = 4096
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_COLUMN = re.compile(r"(.*?)(?: \((\w+)\))?")
_KIND_OF_NAME = (("[CUDA memcpy", COPY), ("[CUDA memset", MEMSET))
_AMD = DeviceProperties(warp_size=64)


class _Row:
    """A row by its columns, in small letters and without units."""

    def __init__(self, columns: Sequence[tuple[str, float]], fields: Sequence[str]) -> None:
        self._fields = {
            name: (text, factor) for (name, factor), text in zip(columns, fields, strict=False) if text
        }

    def text(self, name: str) -> str:
        """The field of a column; empty if there is none."""
        return self._fields.get(name, ("", 1.0))[0]

    def us(self, name: str) -> float:
        """A time in microseconds; NaN if there is none."""
        text, factor = self._fields.get(name, ("", 1.0))
        return parse_number(text) * factor

    def sizes(self, names: str) -> list[int] | None:
        """Three sizes, in the columns of a pattern with ``?`` for the axis; None if the first is missing."""
        found = [read_whole(self.text(names.replace("?", axis))) for axis in "xyz"]
        return [each or 1 for each in found] if found[0] else None


class _Table(NamedTuple):
    """A kind of table.

    Attributes:
        name: What it is.
        columns: That tell it from others.
        read: Makes events of a row, with the number of its device.
        device: Column of its device.
    """

    name: str
    columns: frozenset[str]
    read: Callable[[_Row, int], Iterator[Event]]
    device: str


def read_trace_table(path: Path, data: bytes) -> Trace | None:
    """Read a table; None if it is none of those that are known.

    Raises:
        CostModelError: It is damaged, or has ranges but no kernels.
    """
    head = data[:_HEAD_BYTES].decode("utf-8-sig", errors="replace").splitlines()
    found = ((i, _table_of(line)) for i, line in enumerate(head))
    first, table = next(((i, table) for i, table in found if table), (0, None))
    if table is None:
        return None
    if table is _RANGES:
        raise CostModelError(
            f"A table must have a row for each kernel, but {path} has ranges of NVTX alone. Export "
            "`nsys stats --report cuda_gpu_trace`, or all of the report by `nsys export --type sqlite`."
        )
    lines = data.decode("utf-8-sig", errors="replace").splitlines(keepends=True)[first:]
    form = "rocprof" if table in _OF_AMD else "nsys"
    with refusing(path, table.name, "Export it again.", form=form):
        header, *rows = csv.reader(io.StringIO("".join(lines)))
    if not rows:
        raise CostModelError(f"{path} must have a row for each kernel, but has no row. Export it again.")
    columns, numbers, events = _columns(header), dict[str, int](), list[Event]()
    for fields in rows:
        row = _Row(columns, fields)
        events += table.read(row, numbers.setdefault(row.text(table.device), len(numbers)))
    devices = {number: _device(table, name) for name, number in numbers.items()}
    return Trace(events, devices, has_host=any(event.cat == RUNTIME for event in events))


def _table_of(line: str) -> _Table | None:
    """The kind of table that has this line of names of columns."""
    names = {name for name, _ in _columns(next(csv.reader([line]), []))} if "," in line else set()
    return next((table for table in _TABLES if table.columns <= names), None)


def _columns(header: Sequence[str]) -> list[tuple[str, float]]:
    """Names of columns, and microseconds of their unit, nanoseconds if they have none."""
    matched = (_COLUMN.fullmatch(name.strip()) for name in header)
    parts = (found.groups() if found else ("", None) for found in matched)
    return [(name.lower(), 1e6 * _SECONDS.get(unit or "ns", 1e-9)) for name, unit in parts]


def _device(table: _Table, name: str) -> DeviceProperties:
    """What a table says of a device, as in ``NVIDIA H200 (0)``; those of AMD are numbers of agents."""
    return _AMD if table in _OF_AMD else DeviceProperties(re.sub(r"\s*\(\d+\)$", "", name))


def _kernel_of_nsys(row: _Row, device: int) -> Iterator[Event]:
    name, stream = row.text("name"), read_whole(row.text("strm"))
    kind = next((kind for begin, kind in _KIND_OF_NAME if name.startswith(begin)), KERNEL)
    args = Args(
        correlation=row.text("corrid"),
        stream=stream,
        device=device,
        grid=row.sizes("grd?"),
        block=row.sizes("blk?"),
        registers=row.text("reg/trd"),
    )
    yield make_event(kind, name, (row.us("start"), row.us("duration")), (device, stream), args)


def _launch_of_nsys(row: _Row, device: int) -> Iterator[Event]:
    """A launch and its kernel, which have a row together, and no stream."""
    correlation, track = row.text("api start"), (read_whole(row.text("pid")), read_whole(row.text("tid")))
    called = row.us("api start"), row.us("api dur")
    yield make_event(RUNTIME, row.text("api function"), called, track, Args(correlation=correlation))
    grid, block = (
        [read_whole(each) or 1 for each in re.findall(r"\d+", row.text(column))] or None
        for column in ("gridxyz", "blockxyz")
    )
    args = Args(correlation=correlation, stream=0, device=device, grid=grid, block=block)
    ran = row.us("kernel start"), row.us("kernel dur")
    yield make_event(KERNEL, row.text("kernel name"), ran, (device, 0), args)


def _dispatch_of_rocprofv3(row: _Row, device: int) -> Iterator[Event]:
    start, end = row.us("start_timestamp"), row.us("end_timestamp")
    queue = row.text("stream_id") or row.text("queue_id")
    items, group = row.sizes("grid_size_?"), row.sizes("workgroup_size_?")
    args = Args(
        correlation=row.text("correlation_id"),
        stream=queue,
        device=device,
        grid=_groups(items, group),
        block=group,
    )
    yield make_event(KERNEL, row.text("kernel_name"), (start, end - start), (device, queue), args)


def _dispatch_of_rocprof(row: _Row, device: int) -> Iterator[Event]:
    start, end = row.us("beginns"), row.us("endns")
    items, group = ([read_whole(row.text(name)) or 1] for name in ("grd", "wgr"))
    queue = row.text("queue-id")
    args = Args(stream=queue, device=device, grid=_groups(items, group), block=group)
    yield make_event(KERNEL, row.text("kernelname"), (start, end - start), (device, queue), args)


def _groups(items: Sequence[int] | None, group: Sequence[int] | None) -> list[int] | None:
    """Work-groups of a grid, which AMD's programs count in work-items."""
    if not items or not group:
        return None
    return [ceil(size / max(each, 1)) for size, each in zip(items, group, strict=True)]


_RANGES = _Table(
    "a table of ranges", frozenset({"start", "duration", "name"}), lambda row, device: iter(()), "device"
)
_OF_AMD = (
    _Table(
        "a table of `rocprofv3 --kernel-trace`",
        frozenset({"kernel_name", "start_timestamp", "end_timestamp"}),
        _dispatch_of_rocprofv3,
        "agent_id",
    ),
    _Table(
        "a table of `rocprof`", frozenset({"kernelname", "beginns", "endns"}), _dispatch_of_rocprof, "gpu-id"
    ),
)
_TABLES = (
    _Table(
        "a table of `nsys stats`", frozenset({"start", "duration", "name", "strm"}), _kernel_of_nsys, "device"
    ),
    _Table(
        "a table of `nsys stats`",
        frozenset({"api start", "kernel start", "kernel name"}),
        _launch_of_nsys,
        "devid",
    ),
    *_OF_AMD,
    _RANGES,
)
