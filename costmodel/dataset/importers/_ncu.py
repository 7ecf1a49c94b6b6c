"""What ``ncu --csv`` prints of profiled kernels: one metric a row, or with ``--page raw`` one launch a row.

Lines that begin with ``==``, and the output of the profiled program, stand around the rows. Numbers have
commas between thousands, and times a unit of their own: in a column where a row is a metric, in a second line
where it is a launch. Source: Nsight Compute 2025.1, *CLI*. Neither the size of the problem nor the device is
named; launches of one kernel with one grid are repeats.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    find_given_workload,
    find_platform_file,
    foreign_workload,
    make_candidate,
    require_platform,
)
from costmodel.dataset.sources._document import CsvRow, read_csv_rows
from costmodel.dataset.sources._entry import EntryError, read_decision, read_number, to_seconds
from costmodel.dataset.sources._source import Assumption, Entry, FileContents, Origin
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate, Decision
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._workload import Workload

_KERNEL = "Kernel Name"
_SHAPES = {"block": "Block Size", "grid": "Grid Size"}
# What the time of a launch is called as a metric, and on the page of details.
_TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
_PER_SECOND = {
    **{"s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e3, "msec": 1e3, "msecond": 1e3},
    **{"us": 1e6, "usec": 1e6, "usecond": 1e6, "ns": 1e9, "nsec": 1e9, "nsecond": 1e9},
}
_MOST_NAME = 60  # characters of a kernel's name that its workload shows


@dataclass(frozen=True)
class _Launch:
    """A kernel as it was launched, by what is printed of it."""

    name: str
    block: str
    grid: str


def read_ncu(file: InputFile, options: ReadOptions) -> FileContents:
    """Read the time of each launch; other metrics are passed over.

    Raises:
        CostModelError: No row has a time, or nothing says the platform.
    """
    where = require_platform(find_platform_file(file.path, options.platform), file.path)
    return FileContents.of(file.path, _entries(file, where, options))


def _entries(file: InputFile, where: PlatformFile, options: ReadOptions) -> Iterator[Entry]:
    origin = Origin.of(file.path)
    launches: dict[_Launch, list[float]] = defaultdict(list)
    has_times = False
    for row, cells, time, unit in _timed_rows(file):
        has_times = True
        try:
            if unit not in _PER_SECOND:
                raise EntryError(f"the unit of a time must be one of {', '.join(_PER_SECOND)}")  # noqa: TRY301
            latency_s = to_seconds(read_number(time, "times"), _PER_SECOND[unit], "times")
            shapes = {name: cells.get(column, "") for name, column in _SHAPES.items()}
            launches[_Launch(cells[_KERNEL], **shapes)].append(latency_s)
        except EntryError as error:
            yield origin.reject(str(error), ",".join(row.cells), row.number)
    if not has_times:
        raise CostModelError(
            f"{file.path} must be the output of ncu with the time of each launch, but has none. Profile with "
            "`--metrics gpu__time_duration.sum`, or the section SpeedOfLight."
        )
    given = find_given_workload(where, options)
    platform = where.at_file("ncu_report", origin.text)
    for launch, latencies_s in launches.items():
        try:
            candidate = _candidate(launch, given)
        except EntryError as error:
            yield origin.reject(str(error), launch.name)
            continue
        yield Measurement(
            candidate=candidate,
            platform=platform,
            outcome=Outcome.OK,
            latencies_s=tuple(latencies_s),
            runs_per_repeat=1,
            l2_policy="flushed",  # as ncu does before each pass, unless it is told not to
            measured_at="",
        )
    if launches and given is None:
        yield Assumption(
            "A report of ncu does not say the size of its problem, and all launches of a kernel are taken to "
            "be of one. Profile one size a file, and name it with `--workload mine.kernel-x4096`."
        )


def _timed_rows(file: InputFile) -> Iterator[tuple[CsvRow, Mapping[str, str], str, str]]:
    """Yield the first row of each launch that has a time, its cells by column, the time and its unit."""
    rows = read_csv_rows(
        file.path, "the output of ncu --csv", lambda cells: {"ID", _KERNEL} <= set(cells), chatter="=="
    )
    units: Mapping[str, str] = {}
    last = ("", "")
    for row in rows:
        if len(row.cells) != len(row.header):  # printed by the profiled program
            continue
        cells = row.by_name()
        launch = cells.get("Process ID", ""), cells["ID"]
        if not cells["ID"]:
            units = cells
        elif launch != last and (time := _time_of(cells, units)):
            last = launch
            yield row, cells, *time


def _time_of(cells: Mapping[str, str], units: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the time that a row has, and its unit; None where it has none."""
    if "Metric Name" in cells:
        is_time = cells["Metric Name"] in _TIMES
        return (cells.get("Metric Value", ""), cells.get("Metric Unit", "")) if is_time else None
    return next(((cells[name], units.get(name, "")) for name in _TIMES if cells.get(name)), None)


def _candidate(launch: _Launch, given: Workload | None) -> Candidate:
    """Make the candidate of a launch: its template's arguments, block and grid.

    Raises:
        EntryError: Block or grid are not as ncu prints them.
    """
    base, arguments, parameters = split_signature(launch.name)
    decisions: dict[str, Decision] = {
        f"template.{at}": read_decision(each) for at, each in enumerate(arguments)
    }
    for name, shape in (("block", launch.block), ("grid", launch.grid)):
        if shape:
            decisions |= zip((f"{name}_{axis}" for axis in "xyz"), _parse_shape(shape), strict=True)
    workload = foreign_workload("ncu", base[:_MOST_NAME], [base, parameters])
    return make_candidate("ncu", workload, decisions, given)


def _parse_shape(text: str) -> Sequence[int]:
    found = re.fullmatch(r"\(?\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)?", text, re.ASCII)
    if not found:
        raise EntryError("block and grid must be as in (256, 1, 1)")
    return [int(size) for size in found.groups()]


def split_signature(name: str) -> tuple[str, list[str], str]:
    """Split a demangled C++ function into its name, its template's arguments and its parameters.

    Example:
        >>> split_signature("void gemm<(int)128, float>(float *, int)")
        ('gemm', ['128', 'float'], '(float *, int)')
    """
    depth, start, template, end = 0, 0, -1, len(name)
    for at, character in enumerate(name):
        if character in "<([{":
            if character == "(" and depth == 0 and at > start and name[start:at].strip() != "":
                end = at
                break
            if character == "<" and depth == 0:
                template = at
            depth += 1
        elif character in ">)]}":
            depth -= 1
        elif character == " " and depth == 0 and template < 0:
            start = at + 1
    function = name[start:end]
    if template < start or not function.endswith(">"):
        return function or name, [], name[end:]
    arguments = _split_arguments(name[template + 1 : end - 1])
    return name[start:template], [re.sub(r"^\([\w ]+\)(?=-?\d)", "", each) for each in arguments], name[end:]


def _split_arguments(text: str) -> list[str]:
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
