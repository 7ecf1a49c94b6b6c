"""Results of NVBench, printed, in CSV or in JSON: states of a benchmark's axes, with their GPU times.

NVBench does not say which axes are sizes of the problem and which are tuned. Axes of types, those that CUB
marks with ``{ct}`` or ``{io}``, and those whose whole name is in ``SIZES`` are the problem's; all others are
parameters. Source: NVBench 0.1, ``nvbench/csv_printer.cu`` and ``nvbench/json_printer.cu``. Its GPU
time is of runs with a flushed cache; batches, with a warm one, are passed over.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from costmodel.dataset.sources._base import (
    InputFile,
    ReadOptions,
    add_software,
    find_given_workload,
    find_named_device,
    find_platform_file,
    locate,
    make_candidate,
    workload_of_arguments,
)
from costmodel.dataset.sources._document import read_csv_rows
from costmodel.dataset.sources._entry import PER_SECOND, EntryError, read_decision, read_number, to_seconds
from costmodel.dataset.sources._source import Assumption, Entry, FileContents, Origin
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError, InvalidArgumentError
from costmodel.reading import read_lines
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload

# Names of axes of a problem, in lower case without what is neither letter nor digit.
SIZES = frozenset(
    {
        *("elements", "numelements", "elementcount", "items", "numitems", "inputs", "numinputs", "size"),
        *("problemsize", "rows", "numrows", "cols", "numcols", "columns", "bytes", "numbytes", "m", "n", "k"),
        *("batch", "batchsize", "entropy", "segments", "numsegments"),
    }
)
_TYPE = re.compile(r"[IUFC](8|16|32|64|128)|BF16|bool", re.ASCII)
_MARK = re.compile(r"\{(ct|io)\}")
_CSV = re.compile(rb"^Benchmark,Device,Device Name,", re.MULTILINE)
_BEHIND_AXES = "Skipped"
_TIME = "GPU Time (sec)"
_POW2 = " (pow2)"
_MEAN = "nv/cold/time/gpu/mean"


@dataclass(frozen=True)
class _State:
    """A state of a benchmark.

    Attributes:
        benchmark: Name of the benchmark.
        device: The device.
        axes: Value of each axis.
        types: Names of axes of types.
        skipped: Why it did not run; empty if it did.
        latency_s: Mean time; NaN if it did not run.
    """

    benchmark: str
    device: Device
    axes: Mapping[str, str]
    types: frozenset[str]
    skipped: str
    latency_s: float


def read_nvbench_table(file: InputFile, options: ReadOptions) -> FileContents:
    """Read states from CSV, or from the report that NVBench prints."""
    is_csv = _CSV.search(file.head) is not None
    states = _csv_states(file) if is_csv else _reported_states(file)
    return FileContents.of(file.path, _entries(file, options, states))


def _reported_states(file: InputFile) -> Iterator["_State | _Unread"]:
    """Read the tables of a report, each of a benchmark and a device that headings name."""
    benchmark, device, header = "", "", list[str]()
    for number, line in read_lines(file.path, "output of NVBench"):
        text = line.decode("utf-8", errors="replace").strip()
        if text.startswith("#"):
            header = []
            if text.startswith("### ["):
                device = text.partition("] ")[2].strip("`")
            elif text.startswith("## "):
                benchmark = text.removeprefix("## ")
        elif text.startswith("|") and benchmark and device and set(text) - set("|-: "):
            cells = [cell.strip() for cell in text.strip("|").split("|")]
            if not header:
                header = cells
                continue
            try:
                yield _reported_state(benchmark, device, header, cells)
            except EntryError as error:
                yield _Unread(str(error), text, number)


def _reported_state(benchmark: str, device: str, header: list[str], cells: list[str]) -> "_State":
    """Read a row of a report: its axes stand in front of ``Samples``, powers of two as in ``2^10 = 1024``.

    Raises:
        EntryError: It has other cells than the header, or no time.
    """
    if len(cells) != len(header) or "Samples" not in header or "GPU Time" not in header:
        raise EntryError("a row must have as many cells as the header, with Samples and GPU Time among them")
    pairs = zip(header[: header.index("Samples")], cells, strict=False)
    axes = {name: cell.rpartition(" = ")[2] for name, cell in pairs if name and cell}
    number, _, unit = cells[header.index("GPU Time")].partition(" ")
    if unit not in PER_SECOND:
        raise EntryError(f"the unit of a time must be one of {', '.join(PER_SECOND)}")
    types = frozenset(name for name, value in axes.items() if _TYPE.fullmatch(value))
    latency_s = to_seconds(read_number(number, _TIME), PER_SECOND[unit], _TIME)
    return _State(benchmark, find_named_device(device), axes, types, "", latency_s)


def _csv_states(file: InputFile) -> Iterator["_State | _Unread"]:
    rows = read_csv_rows(
        file.path,
        "results of NVBench in CSV",
        lambda cells: list(cells[:3]) == ["Benchmark", "Device", "Device Name"],
    )
    for row in rows:
        try:
            if _TIME not in row.header or _BEHIND_AXES not in row.header:
                raise EntryError(f"a table must have the columns {_BEHIND_AXES} and {_TIME}")  # noqa: TRY301
            yield _csv_state(row.by_name(), row.header)
        except EntryError as error:
            yield _Unread(str(error), row.cells, row.number)


def _csv_state(cells: Mapping[str, str], header: Sequence[str]) -> _State:
    """Read a row: its axes stand in front of ``Skipped``, powers of two twice.

    Raises:
        EntryError: It has an axis elsewhere, or no time.
    """
    last = header.index(_BEHIND_AXES)
    axes = {name: cells[name] for name in header[3:last] if cells[name] and not name.endswith(_POW2)}
    if any(cells[name] for name in header[last:] if name.endswith(_POW2)):
        raise EntryError("axes must precede Skipped (of benchmarks with other axes, NVBench's JSON is read)")
    skipped = "skipped" if cells[_BEHIND_AXES].lower() == "yes" else ""
    return _State(
        cells["Benchmark"],
        find_named_device(cells["Device Name"]),
        axes,
        frozenset(name for name, value in axes.items() if _TYPE.fullmatch(value)),
        skipped,
        math.nan if skipped else to_seconds(read_number(cells[_TIME], _TIME), 1.0, _TIME),
    )


class _Named(msgspec.Struct):
    """A value with its name."""

    name: str
    value: Any = None


class _Summary(msgspec.Struct):
    """A summary of a state's runs."""

    tag: str
    data: list[_Named] = []


class _JsonState(msgspec.Struct):
    """A state in JSON."""

    device: int
    axis_values: list[_Named] | None = None
    summaries: list[_Summary] | None = None
    is_skipped: bool = False
    skip_reason: str = ""


class _Axis(msgspec.Struct):
    """An axis in JSON."""

    name: str
    type: str


class _Benchmark(msgspec.Struct):
    """A benchmark in JSON."""

    name: str
    axes: list[_Axis] | None = None
    states: list[Any] | None = None


class _JsonDevice(msgspec.Struct):
    """A device in JSON."""

    id: int
    name: str
    sm_version: int = 0
    number_of_sms: int = 0
    sm_default_clock_rate: int = 0
    global_memory_bus_bandwidth: int = 0
    l2_cache_size: int = 0


def read_nvbench(file: InputFile, options: ReadOptions) -> FileContents:
    """Read states from JSON.

    Raises:
        CostModelError: The list of devices is damaged.
    """
    try:
        devices = msgspec.convert(file.document.fields["devices"], list[_JsonDevice])
    except UNDECODABLE:
        raise CostModelError(
            f"{file.path} must be results of NVBench whose devices have an id and a name, but have not."
        ) from None
    by_id = {each.id: _device(each) for each in devices}
    return FileContents.of(file.path, _entries(file, options, _json_states(file, by_id)))


def _device(said: _JsonDevice) -> Device:
    """Find the device; of an unknown one, what the file says of it."""
    known = find_named_device(said.name)
    if known.sms:
        return known
    try:
        return Device(
            said.name,
            "cuda",
            f"sm_{said.sm_version // 10}" if said.sm_version else "",
            said.number_of_sms,
            clock_mhz=said.sm_default_clock_rate / 1e6,
            bandwidth_gb_s=said.global_memory_bus_bandwidth / 1e9,
            l2_bytes=said.l2_cache_size,
        )
    except (InvalidArgumentError, OverflowError):
        return known


def _json_states(file: InputFile, devices: Mapping[int, Device]) -> Iterator["_State | _Unread"]:
    number = 0
    for _, entry in file.document.entries("benchmarks"):
        try:
            benchmark = msgspec.convert(entry, _Benchmark)
        except UNDECODABLE:
            yield _Unread("a benchmark must have a name, axes and states", entry, number)
            continue
        types = frozenset(axis.name for axis in benchmark.axes or () if axis.type == "type")
        for state in benchmark.states or ():
            number += 1
            try:
                yield _json_state(benchmark.name, msgspec.convert(state, _JsonState), devices, types)
            except EntryError as error:
                yield _Unread(str(error), state, number)
            except UNDECODABLE:
                yield _Unread("a state must have a device, axis_values and summaries", state, number)


def _json_state(
    benchmark: str, state: _JsonState, devices: Mapping[int, Device], types: frozenset[str]
) -> _State:
    """Read a state.

    Raises:
        EntryError: Its device is not listed, or it ran and has no time.
    """
    if state.device not in devices:
        raise EntryError("the device of a state must be among the devices")
    skipped = (state.skip_reason or "skipped") if state.is_skipped else ""
    axes = {axis.name: str(axis.value) for axis in state.axis_values or ()}
    means = [value for each in state.summaries or () if each.tag == _MEAN for value in each.data]
    mean = next((str(each.value) for each in means if each.name == "value"), "")
    latency_s = math.nan if skipped else to_seconds(read_number(mean, _MEAN), 1.0, _MEAN)
    return _State(benchmark, devices[state.device], axes, types, skipped, latency_s)


@dataclass(frozen=True)
class _Unread:
    """A row or state that cannot be read: why, what stands there, and its number."""

    reason: str
    entry: Any
    number: int


def _entries(file: InputFile, options: ReadOptions, states: Iterator[_State | _Unread]) -> Iterator[Entry]:
    origin = Origin.of(file.path)
    found = find_platform_file(file.path, options.platform)
    given = find_given_workload(found, options)
    sizes, parameters = set[str](), set[str]()
    for state in states:
        if isinstance(state, _Unread):
            yield origin.reject(state.reason, state.entry, state.number)
            continue
        where = locate(state.device, state.device.name, found)
        try:
            problem = {} if given else {name: state.axes[name] for name in _problem(state)}
            yield _measurement(state, problem, add_software(where.platform, {"nvbench": origin.text}), given)
        except EntryError as error:
            yield origin.reject(str(error), state.axes)
            continue
        yield from where.repairs(1)
        sizes |= problem.keys()
        parameters |= state.axes.keys() - problem.keys()
    if sizes or parameters:
        yield Assumption(
            f"Of the axes, {', '.join(sorted(sizes)) or 'none'} are taken to be of the problem, and "
            f"{', '.join(sorted(parameters)) or 'none'} to be tuned. With `--workload mine.kernel-x4096` all "
            "are tuned, and `--columns map.toml` says what each column of a CSV is."
        )


def _problem(state: _State) -> Iterator[str]:
    for name in state.axes:
        plain = re.sub(r"[\W_]+", "", _MARK.sub("", name)).lower()
        if name in state.types or _MARK.search(name) or plain in SIZES:
            yield name


def _measurement(
    state: _State,
    problem: Mapping[str, str],
    platform: Platform,
    given: Workload | None,
) -> Measurement:
    """Make the measurement of a state.

    Raises:
        EntryError: A value is none.
    """
    values = {name: read_decision(value) for name, value in state.axes.items()}
    decisions = {name: value for name, value in values.items() if name not in problem}
    arguments = [[name, values[name]] for name in sorted(problem)]
    workload = workload_of_arguments("nvbench", state.benchmark, arguments)
    ok = not state.skipped
    return Measurement(
        candidate=make_candidate("nvbench", workload, decisions, given),
        platform=platform,
        outcome=Outcome.OK if ok else Outcome.INVALID_CONFIG,
        latencies_s=(state.latency_s,) if ok else (),
        runs_per_repeat=1 if ok else 0,
        l2_policy="flushed",
        measured_at="",
        error=state.skipped,
    )
