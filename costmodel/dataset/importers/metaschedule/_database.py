"""MetaSchedule's JSON databases: two files of lines, the programs and the traces that were measured.

A line of ``database_workload.json`` is ``[structural hash, program]``, one of ``database_tuning_record.json``
``[position of the program, [trace, seconds of each run, target, arguments]]``. Source: TVM 0.27,
``src/s_tir/meta_schedule/database/json_database.cc``. Neither says the device: that comes from a file of the
platform. Programs are told apart by their hash, and traces read without TVM. Where it is installed, it lowers
what a trace makes of its program, whatever that computes: what the kernels launch tells configs apart that no
model has seen the parameters of.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._base import Format, InputFile, ReadOptions
from costmodel.dataset.importers._document import parse_json
from costmodel.dataset.importers._entry import MOST_S, EntryError, seconds
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, needed_platform, platform_file_for
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers._unpack import Stream, lines_of, unpacked
from costmodel.dataset.importers.metaschedule._trace import config_of_trace
from costmodel.errors import CostModelError, InvalidConfigError, MissingExtraError
from costmodel.kernels.metaschedule import TargetKind, TracedProgram, database_workload, open_space
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload, content_id

RECORDS_NAME = "database_tuning_record.json"
PROGRAMS_NAME = "database_workload.json"
NO_REASON = "MetaSchedule records no reason"
_MOST_LINE = 64 * 2**20
_MOST_TOTAL = 16 * 2**30
_IS_PROGRAM = re.compile(rb'\s*\[\s*"-?\d+"\s*,\s*"')
# TVM's target kinds by ours.
_TARGETS = {"cuda": ("cuda",), "hip": ("rocm", "hip"), "cpu": ("llvm", "c")}


def _read_database(file: InputFile, options: ReadOptions) -> Source:
    platform = platform_file_for(file.path, options.platform)
    return Source.of(file.path, _entries(file.path, platform, options.workloads))


def _entries(
    path: Path, platform: PlatformFile | None, workloads: Sequence[Workload]
) -> Iterator[Measurement | Reject]:
    """Read a database, one record at a time.

    A record becomes a config of our space where its program is one of ours (as the platform's file says, or
    by its hash) and its trace follows one of the space's sketches. Otherwise it becomes a config of the
    foreign workload ``metaschedule.p<hash of the program>``.

    Args:
        path: The file of the records; that of the programs stands beside it.
        platform: Where it was measured.
        workloads: Workloads whose programs to look for; this needs TVM.

    Raises:
        CostModelError: A file cannot be read, nothing says the platform, or no program is as named.
        MissingExtraError: Workloads are named, and TVM is not there.
    """
    where = needed_platform(platform, path)
    origin = Origin.of(path)
    software = {**where.platform.software, "metaschedule_database": origin.text}
    names = _names(where.workloads, workloads)
    programs = _programs(_beside(path), names)
    if names and not any(program and program.ours for program in programs):
        raise CostModelError(
            f"One of the {len(programs)} programs of {path} must be one of the workloads that are named, but "
            f"none is. Write its hash, which begins its line of {PROGRAMS_NAME}, and its name as "
            '`"4328089659445662024" = "matmul-m32-n32-k32"` under [workloads] of the platform file, or leave '
            "out `--workload`."
        )
    database = _Database(msgspec.structs.replace(where.platform, software=software), programs)
    for number, line in _lines(path):
        try:
            yield database.measurement(line)
        except EntryError as error:
            yield origin.reject(str(error), line.decode(errors="replace"), number)


@dataclass(frozen=True)
class _Program:
    """A program of the database: what it is as a foreign kernel, as ours where it is known, and as TVM's."""

    foreign: Workload
    ours: Workload | None
    traced: TracedProgram


@dataclass(frozen=True)
class _Database:
    """What the records share; a program is None where its line is damaged."""

    platform: Platform
    programs: Sequence[_Program | None]

    def measurement(self, line: bytes) -> Measurement:
        """The measurement of a line.

        Raises:
            EntryError: It cannot be believed.
        """
        position, (trace, run_secs, target, _) = _parsed(line)
        if type(position) is not int or not 0 <= position < len(self.programs):
            raise EntryError("a record must name a line of the programs")
        program = self.programs[position]
        if program is None:
            raise EntryError("the program of a record must be a hash and a text")
        self._check_target(target)
        latencies_s = _latencies_s(run_secs)
        return Measurement(
            candidate=self._candidate(program, trace),
            platform=self.platform,
            outcome=Outcome.OK if latencies_s else Outcome.LAUNCH_ERROR,
            latencies_s=latencies_s,
            runs_per_repeat=1 if latencies_s else 0,
            measured_at="",
            error="" if latencies_s else NO_REASON,
        )

    def _check_target(self, target: Any) -> None:
        kind = target.get("kind") if isinstance(target, dict) else None
        if kind is not None and kind not in _TARGETS[self.platform.device.kind]:
            raise EntryError("the target of a record must be of the platform's kind of device")

    def _candidate(self, program: _Program, trace: Any) -> Candidate:
        config = config_of_trace(trace)  # also keeps what is no trace away from TVM
        kind = self.platform.device.kind
        if program.ours and kind != "hip":
            found = _candidate_of_ours(program.ours, kind, trace)
            if found:
                return found
        launches = program.traced.launches(trace) if find_spec("tvm") else ()
        return Candidate(program.foreign, "metaschedule-trace", config, launches)


def _candidate_of_ours(workload: Workload, kind: TargetKind, trace: Any) -> Candidate | None:
    """The candidate of a trace in our space; None where it was drawn from another."""
    space = open_space(workload, kind)
    try:
        config = space.config_of(trace)
    except CostModelError:
        return None
    try:
        return space.candidate(config)
    except InvalidConfigError:  # made for a device with other limits; its launches stay unknown
        return Candidate(workload, space.name, config)


def _parsed(line: bytes) -> tuple[Any, list[Any]]:
    """Position and fields of a record."""
    try:
        record = parse_json(line.decode())
    except (ValueError, RecursionError):
        raise EntryError("a line must be JSON; the last one of a killed process is torn") from None
    match record:
        case [position, [_, _, _, _] as fields]:
            return position, fields
    raise EntryError("a record must be [position, [trace, seconds, target, arguments]]")


def _latencies_s(run_secs: Any) -> tuple[float, ...]:
    """Seconds of each run; none where it failed, for which MetaSchedule writes 1e10."""
    values = [] if run_secs is None else run_secs
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise EntryError("run seconds must be a list of numbers")
    if all(value >= MOST_S for value in values):
        return ()
    return tuple(seconds(value, 1.0, "run seconds") for value in values)


def _programs(path: Path, names: Mapping[str, Workload]) -> list[_Program | None]:
    """The programs in order; lines are known by their checksum and kept no longer."""
    programs: list[_Program | None] = []
    for _, line in _lines(path):
        try:
            match parse_json(line.decode()):
                case [str(program), str(text)]:
                    foreign = Workload(f"metaschedule.p{content_id(text)}", {}, "")
                    programs.append(_Program(foreign, names.get(program), TracedProgram(program, text)))
                case _:
                    programs.append(None)
        except (ValueError, RecursionError):
            programs.append(None)
    return programs


def _names(said: Mapping[str, Workload], workloads: Sequence[Workload]) -> dict[str, Workload]:
    """Workloads by the hash of their programs: those that are looked for, and those that a file says."""
    if (workloads or said) and find_spec("tvm") is None:
        raise MissingExtraError("Reading a MetaSchedule database into our own spaces", "tvm")
    if not workloads:
        return dict(said)
    return {**{database_workload(workload)[0]: workload for workload in workloads}, **said}


def _beside(path: Path) -> Path:
    """The file of the programs that belongs to a file of records."""
    name = path.name.replace("tuning_record", "workload")
    programs = path.with_name(name)
    if name == path.name or not programs.is_file():
        raise CostModelError(
            f"The programs of a MetaSchedule database must be beside its records: {path.name} must be "
            f"named as {RECORDS_NAME}, with {PROGRAMS_NAME} in the same folder. Copy both files."
        )
    return programs


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers."""
    with unpacked(path) as (file, _):
        yield from _numbered(file, path)


def _numbered(file: Stream, path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        for number, line in enumerate(lines_of(file, most_bytes=_MOST_LINE, most_total=_MOST_TOTAL), start=1):
            if line.strip():
                yield number, line
    except ValueError as error:
        raise CostModelError(f"{path} must be a MetaSchedule database, but: {error}.") from None


# The programs hold no measurement.
PROGRAM_TABLE = Format(
    "programs of MetaSchedule",
    lambda file, _: bool(_IS_PROGRAM.match(file.head)),
    lambda file, _: Source.of(file.path, ()),
)
METASCHEDULE = Format(
    "database of MetaSchedule", lambda file, _: file.head.lstrip().startswith(b"["), _read_database
)
