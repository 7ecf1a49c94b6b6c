"""MetaSchedule's JSON databases: two files of lines, the programs and the traces that were measured.

A line of ``database_workload.json`` is ``[structural hash, program]``, one of ``database_tuning_record.json``
``[position of the program, [trace, seconds of each run, target, arguments]]``. Source: TVM 0.27,
``src/s_tir/meta_schedule/database/json_database.cc``. Neither says the device: that comes from a file of the
platform. Programs are told apart by their hash, and decisions read from the traces. Where TVM is installed, a
sample of them is replayed, and foreign ones are lowered, whatever their programs compute: what kernels launch
tells configs apart that no model has seen the parameters of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._apply_traces import TraceApplier
from costmodel.dataset.importers._metaschedule_traces import (
    ForeignKernels,
    OurKernels,
    ReplayDiffersError,
    TraceReader,
)
from costmodel.dataset.sources._base import (
    InputFile,
    LowerTraces,
    ReadOptions,
    find_platform_file,
    require_platform,
)
from costmodel.dataset.sources._document import parse_json
from costmodel.dataset.sources._entry import MOST_S, EntryError, to_seconds
from costmodel.dataset.sources._source import FileContents, Origin, Reject
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.kernels.metaschedule._database_json import database_workload
from costmodel.reading import is_file, read_lines
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import DeviceKind, Platform, TargetKind, find_target_kind
from costmodel.records._workload import Workload

RECORDS_NAME = "database_tuning_record.json"
PROGRAMS_NAME = "database_workload.json"
NO_REASON = "MetaSchedule records no reason"
# TVM's target kinds by ours.
_TARGETS = {"cuda": ("cuda",), "hip": ("rocm", "hip"), "xpu": (), "cpu": ("llvm", "c")}


def read_metaschedule(file: InputFile, options: ReadOptions) -> FileContents:
    """Read a database; see ``_entries``."""
    return FileContents.of(file.path, _entries(file.path, options, TraceApplier()))


def _entries(path: Path, options: ReadOptions, applier: TraceApplier) -> Iterator[Measurement | Reject]:
    """Read a database, one record at a time.

    A record becomes a config of our space where its program is one of ours (as the platform's file says, or
    by its hash) and its trace follows one of the space's sketches. Otherwise it becomes a config of the
    foreign workload ``metaschedule.p<hash of the program>``.

    Args:
        path: The file of the records; that of the programs stands beside it.
        options: Where it was measured, workloads whose programs to look for, which needs TVM, and which
            traces to lower.
        applier: Applies traces.

    Raises:
        CostModelError: A file cannot be read, nothing says the platform, no program is as named, or TVM makes
            something else of a trace than was read from it.
        MissingExtraError: Workloads are named or all traces are to be lowered, and TVM is not there.
    """
    where = require_platform(find_platform_file(path, options.platform), path)
    origin = Origin.of(path)
    software = {**where.platform.software, "metaschedule_database": origin.text}
    kind = where.platform.device.kind
    target = find_target_kind(where.platform.device)
    names = _names(where.workloads, options.workloads) if target else {}
    programs = _programs(_beside(path), names, target, _lowered(options.lower_traces, kind), applier)
    if names and not any(program and program.ours for program in programs):
        raise CostModelError(
            f"One of the {len(programs)} programs of {path} must be one of the given workloads, but none "
            f"is. Write its hash, which begins its line of {PROGRAMS_NAME}, and its name as "
            '`"4328089659445662024" = "matmul-m32-n32-k32"` under [workloads] of the platform file, or '
            "leave out `--workload`."
        )
    database = _Database(msgspec.structs.replace(where.platform, software=software), programs)
    for number, line in read_lines(path, "a MetaSchedule database"):
        try:
            yield database.measurement(line)
        except EntryError as error:
            yield origin.reject(str(error), line.decode(errors="replace"), number)
        except ReplayDiffersError as error:
            raise CostModelError(
                f"{path} must contain traces that TVM applies as they are written, but in line {number} "
                f"{error}. Install the version of TVM that wrote it, or remove the line."
            ) from None


@dataclass(frozen=True)
class _Database:
    """What the records share; a program is None where its line is damaged."""

    platform: Platform
    programs: Sequence[TraceReader | None]

    def measurement(self, line: bytes) -> Measurement:
        """Return the measurement of a line.

        Raises:
            EntryError: It cannot be believed.
        """
        position, (trace, run_secs, target, _) = _parsed(line)
        if type(position) is not int or not 0 <= position < len(self.programs):
            raise EntryError("a record must refer to a line of the programs")
        program = self.programs[position]
        if program is None:
            raise EntryError("the program of a record must be a hash and text")
        self._check_target(target)
        latencies_s = _latencies_s(run_secs)
        return Measurement(
            candidate=program.candidate(trace, line),
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
            raise EntryError("the target of a record must match the platform's kind of device")


def _parsed(line: bytes) -> tuple[Any, list[Any]]:
    """Return position and fields of a record."""
    try:
        record = parse_json(line.decode())
    except (ValueError, RecursionError):
        raise EntryError("a line must be JSON (a killed process leaves its last line incomplete)") from None
    match record:
        case [position, [_, _, _, _] as fields]:
            return position, fields
    raise EntryError("a record must be [position, [trace, seconds, target, arguments]]")


def _latencies_s(run_secs: Any) -> tuple[float, ...]:
    """Return seconds of each run; none where it failed, for which MetaSchedule writes 1e10."""
    values = [] if run_secs is None else run_secs
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise EntryError("run seconds must be a list of numbers")
    if all(value >= MOST_S for value in values):
        return ()
    return tuple(to_seconds(value, 1.0, "run seconds") for value in values)


def _programs(
    path: Path,
    names: Mapping[str, Workload],
    kind: TargetKind | None,
    lowered: tuple[bool, bool],
    applier: TraceApplier,
) -> list[TraceReader | None]:
    """Return the programs in order, with what of them is lowered; None where a line is damaged."""
    programs: list[TraceReader | None] = []
    for _, line in read_lines(path, "a MetaSchedule database"):
        try:
            match parse_json(line.decode()):
                case [str(program), str(text)]:
                    ours = None
                    if kind and program in names:
                        ours = OurKernels(names[program], kind, applier)
                    programs.append(TraceReader(ForeignKernels(program, text, applier), ours, *lowered))
                case _:
                    programs.append(None)
        except (ValueError, RecursionError):
            programs.append(None)
    return programs


def _lowered(which: LowerTraces, kind: DeviceKind) -> tuple[bool, bool]:
    """Tell whether to lower foreign traces, and ours, whose features on a GPU follow from their decisions."""
    if find_spec("tvm") is None:
        if which == "all":
            raise MissingExtraError("Lowering all traces of a MetaSchedule database", "tvm")
        return False, False
    return which != "none", which == "all" or (which == "needed" and kind == "cpu")


def _names(said: Mapping[str, Workload], workloads: Sequence[Workload]) -> dict[str, Workload]:
    """Workloads by the hash of their programs: those that are looked for, and those that a file says."""
    if (workloads or said) and find_spec("tvm") is None:
        raise MissingExtraError("Reading a MetaSchedule database into our own spaces", "tvm")
    return {**{database_workload(workload)[0]: workload for workload in workloads}, **said}


def _beside(path: Path) -> Path:
    """Return the file of the programs that belongs to a file of records."""
    name = path.name.replace("tuning_record", "workload")
    programs = path.with_name(name)
    if name == path.name or not is_file(programs):
        raise CostModelError(
            f"The programs of a MetaSchedule database must be in the folder of its records: {path.name} "
            f"must be named {RECORDS_NAME}, with {PROGRAMS_NAME} next to it. Copy both files."
        )
    return programs


def read_programs(file: InputFile, _: ReadOptions) -> FileContents:
    """Read the programs of a database, which hold no measurement."""
    return FileContents.of(file.path, ())
