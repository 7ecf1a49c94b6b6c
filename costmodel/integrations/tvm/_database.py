"""MetaSchedule's database that knows what was measured where."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costmodel.databases import is_database
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.integrations.tvm._program import drop_host, program_key, target_json
from costmodel.kernels.metaschedule._apart import call_apart
from costmodel.kernels.metaschedule._choices import plain_json
from costmodel.kernels.metaschedule._database_json import check_program, check_record, record_fields
from costmodel.reading import refusing
from costmodel.records._line_file import open_log
from costmodel.records._platform import Device, Isolation, Platform

# What the file must be, and what to do if TVM cannot read what stands in it.
_READABLE = ("a database of programs and traces of this TVM", "Tune with the version of TVM that wrote it.")
# MetaSchedule writes 1e10 s into its databases for a kernel that failed, and takes more than this for none.
_FAILED_S = 1e9


class ProgramEntry(msgspec.Struct, frozen=True, tag="program", forbid_unknown_fields=True):
    """A program that is tuned.

    Attributes:
        key: Its structural hash.
        fields: What MetaSchedule's JSON database keeps of it.
    """

    key: str
    fields: list[Any]


class DeviceEntry(msgspec.Struct, frozen=True, tag="device", forbid_unknown_fields=True):
    """A device that measured, for who makes a dataset of the database.

    Attributes:
        device: The device.
    """

    device: Device


class MeasuredEntry(msgspec.Struct, frozen=True, tag="measured", forbid_unknown_fields=True, dict=True):
    """A measurement, or a failure.

    Attributes:
        program: Key of the program.
        target: Canonical JSON of the target, without its host.
        device: Name of the device.
        isolation: How SMs were set apart.
        sms_requested: SMs asked for.
        sms_granted: SMs that the driver gave.
        latencies_s: Seconds of each repeat; empty for one that failed.
        trace: The schedule, as MetaSchedule's JSON database keeps it.
        full_target: Canonical JSON of the target.
        arguments: Shapes and dtypes, as MetaSchedule's JSON database keeps them.
        measured_at: UTC time, ISO 8601.
    """

    program: str
    target: str
    device: str
    isolation: Isolation
    sms_requested: int
    sms_granted: int
    latencies_s: tuple[float, ...]
    trace: list[Any]
    full_target: str
    arguments: list[Any]
    measured_at: str

    @property
    def latency_s(self) -> float:
        """Median of the repeats in seconds, as in MetaSchedule's table of tasks; inf for one that failed.

        MetaSchedule's own database ranks by the mean, which one disturbed repeat may decide.
        """
        return latency_of(self.latencies_s)

    def is_on(self, platform: Platform) -> bool:
        """Whether it was made on the device, SMs and isolation of a platform."""
        return (self.device, self.isolation, self.sms_granted) == (
            platform.device.name,
            platform.isolation,
            platform.sms_granted,
        )

    @property
    def fields(self) -> list[Any]:
        """What ``ms.database.TuningRecord.from_json`` takes."""
        run_secs = list(self.latencies_s) or None
        return [self.trace, run_secs, json.loads(self.full_target), self.arguments]


Entry = ProgramEntry | DeviceEntry | MeasuredEntry
encode_entry = msgspec.json.Encoder().encode
decode_entry: Any = msgspec.json.Decoder(Entry).decode


@dataclass(frozen=True)
class BestKernel:
    """The best known kernel for an SM budget.

    Attributes:
        record: MetaSchedule's ``TuningRecord``. Its trace makes the schedule.
        latency_s: Measured latency, in seconds.
        sms: Number of SMs that the latency was measured on.
        sms_wanted: Number of SMs that was requested.
    """

    record: Any
    latency_s: float
    sms: int
    sms_wanted: int

    @property
    def exact(self) -> bool:
        """Whether the kernel was measured on the requested number of SMs, not on the nearest one."""
        return self.sms == self.sms_wanted


@derived_object
class Database(ms.database.PyDatabase):  # type: ignore[misc]
    """A database for every entry point of MetaSchedule that takes ``database=``.

    One file holds measurements of any programs on any devices, targets and SM budgets; a database shows
    MetaSchedule those of its own platform alone, and a query those of its target alone. Several processes may
    tune into one file at once; each sees what the others found. What others wrote is opened in a process that
    TVM may end first, see ``call_apart``. A line that a killed process left torn is moved out of the way, see
    ``SharedLineFile``.

    Args:
        path: The file, whose name ends in ``.jsonl`` or, for SQLite, in ``.db``; or the URL of a database,
            which may also have the record stores of others. Made if it is not there.
        platform: Where what is committed was measured: that of the runner.

    Attributes:
        platform: As given.

    Raises:
        CostModelError: The file cannot be opened, is damaged before its last line, or is of another version.
    """

    def __init__(self, path: Path | str, platform: Platform) -> None:
        super().__init__()
        if not is_database(path) and Path(path).suffix != ".jsonl":
            raise CostModelError(f"A database must be a .jsonl file, but got {path}.")
        self.platform = platform
        self._lines = open_log(path, "the database")
        self._programs: dict[str, Any] = {}
        self._devices: set[Device] = set()
        self._measured: list[MeasuredEntry] = []
        self._written: set[int] = set()  # hashes of lines of this process, which need no check
        self._foreign: set[int] = set()  # ids of entries of others
        self._records: dict[int, Any] = {}  # by id of the entry, which is kept: each takes ms to make
        self._refresh()

    def has_workload(self, mod: Any) -> bool:
        """Whether the program is known."""
        self._refresh()
        return program_key(mod) in self._programs

    def commit_workload(self, mod: Any) -> Any:
        """The ``Workload`` of a program, which is added if it is not known."""
        self._refresh()
        key = program_key(mod)
        if key not in self._programs:
            workload = ms.database.Workload(mod)
            self._append(ProgramEntry(key, plain_json(workload.as_json())))
            self._programs[key] = workload
        return self._programs[key]

    def commit_tuning_record(self, record: Any) -> None:
        """Add a record; it is on disk when this returns."""
        trace, run_secs, _, arguments = record_fields(record)
        failed = math.isinf(latency_of(run_secs))
        target, platform = target_json(record.target), self.platform
        entry = MeasuredEntry(
            program=program_key(record.workload.mod),
            target=drop_host(target),
            device=platform.device.name,
            isolation=platform.isolation,
            sms_requested=platform.sms_requested,
            sms_granted=platform.sms_granted,
            latencies_s=() if failed else tuple(run_secs),
            trace=trace,
            full_target=target,
            arguments=arguments,
            measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        self.commit_workload(record.workload.mod)
        new = [] if platform.device in self._devices else [DeviceEntry(platform.device)]
        self._append(*new, entry)
        self._refresh()

    def get_top_k(self, workload: Any, top_k: int) -> list[Any]:
        """The ``top_k`` fastest records of a program on this platform; none that failed."""
        self._refresh()
        known = self._ran(program_key(workload.mod))
        return [self._record(entry) for entry in _fastest(self._own(known))[:top_k]]

    def get_all_tuning_records(self) -> list[Any]:
        """All records of this platform, failures included, in the order in which they came."""
        self._refresh()
        return [self._record(entry) for entry in self._own(self._measured)]

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str | None = None) -> Any:
        """The fastest record of a program on this platform for this target; None where there is none."""
        self._refresh()
        device = drop_host(target_json(target))
        known = [entry for entry in self._ran(program_key(mod)) if entry.target == device]
        found = _fastest(self._own(known))
        return self._record(found[0]) if found else None

    def best_for(self, mod: Any, *, device: str | None = None, sms: int | None = None) -> BestKernel | None:
        """The fastest kernel of a program for some SMs of a device.

        Args:
            mod: The program, not scheduled.
            device: Name of the device; this database's unless given.
            sms: SMs that it will have; those of this database's platform unless given.

        Returns:
            The fastest that was measured on these SMs; where none was, that of the nearest number, by ratio,
            of two equally near ones the smaller. None where nothing was measured on the device.
        """
        self._refresh()
        wanted = self.platform.sms_granted if sms is None else sms
        device = device or self.platform.device.name
        known = [entry for entry in self._ran(program_key(mod)) if entry.device == device]
        if not known:
            return None
        nearest = min((entry.sms_granted for entry in known), key=lambda n: (abs(math.log2(n / wanted)), n))
        best = _fastest([entry for entry in known if entry.sms_granted == nearest])[0]
        return BestKernel(self._record(best), best.latency_s, nearest, wanted)

    def __len__(self) -> int:
        self._refresh()
        return len(self._own(self._measured))

    def _append(self, *entries: Entry) -> None:
        lines = [encode_entry(entry) for entry in entries]
        self._written.update(map(hash, lines))
        self._lines.append(lines)

    def _refresh(self) -> None:
        """Read what was appended since, by whomever."""
        for _, line in self._lines.read_new():
            try:
                entry = decode_entry(line)
            except UNDECODABLE as error:
                raise CostModelError(
                    f"{self._lines.path} must be a database of this version, but is not: {error}."
                ) from None
            if isinstance(entry, MeasuredEntry):
                self._measured.append(entry)
                if hash(line) not in self._written:
                    self._foreign.add(id(entry))
            elif isinstance(entry, DeviceEntry):
                self._devices.add(entry.device)
            elif entry.key not in self._programs:
                with refusing(self._lines.path, *_READABLE, form="tvm-database"):
                    call_apart(check_program, entry.fields)
                    self._programs[entry.key] = ms.database.Workload.from_json(entry.fields)

    def _own(self, entries: Sequence[MeasuredEntry]) -> list[MeasuredEntry]:
        return [entry for entry in entries if entry.is_on(self.platform)]

    def _ran(self, program: str) -> list[MeasuredEntry]:
        return [entry for entry in self._measured if entry.program == program and entry.latencies_s]

    def _record(self, entry: MeasuredEntry) -> Any:
        if id(entry) not in self._records:
            with refusing(self._lines.path, *_READABLE, form="tvm-database"):
                workload = self._programs[entry.program]
                if id(entry) in self._foreign:
                    call_apart(check_record, plain_json(workload.as_json()), entry.fields)
                self._records[id(entry)] = ms.database.TuningRecord.from_json(entry.fields, workload)
        return self._records[id(entry)]


def _fastest(entries: Sequence[MeasuredEntry]) -> list[MeasuredEntry]:
    """Fastest first; ties in the order in which they came."""
    return sorted(entries, key=lambda entry: entry.latency_s)


def latency_of(run_secs: Sequence[Any] | None) -> float:
    """Median of the run times in seconds; inf for a candidate that failed."""
    seconds = [float(second) for second in run_secs or ()]
    latency_s = float(np.median(seconds)) if seconds else np.inf
    return latency_s if 0.0 < latency_s < _FAILED_S else np.inf
