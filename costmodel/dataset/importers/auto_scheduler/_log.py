"""Logs of TVM's auto_scheduler: a record of one measurement a line, as TenSet has them by the million.

A line is ``{"i": [task, state], "r": [seconds of each run, error, seconds that it all took, time], "v":
version}``, the task ``[workload key, target, hardware, host's target, ...]`` and the state ``[[], steps]``.
Source: TVM 0.14, ``src/auto_scheduler/measure_record.cc`` and ``python/tvm/auto_scheduler/measure.py``; later
versions of TVM have no auto_scheduler, and none is needed to read its logs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._base import Format, InputFile, ReadOptions
from costmodel.dataset.importers._entry import EntryError, seconds
from costmodel.dataset.importers._json import parse_json
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, needed_platform, platform_file_for
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers._unpack import numbered_lines
from costmodel.dataset.importers.auto_scheduler._steps import Step, Whole, config_of_steps
from costmodel.dataset.importers.auto_scheduler._task import (
    device_kind,
    platform_of_target,
    workload_of_key,
)
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform

# Which TVM reads alike; later ones only have more behind the task.
VERSIONS = ("v0.2", "v0.3", "v0.4", "v0.5", "v0.6")
# By ``error_no``, and what auto_scheduler calls it.
OUTCOMES = {
    0: (Outcome.OK, ""),
    1: (Outcome.INVALID_CONFIG, "INSTANTIATION_ERROR"),
    2: (Outcome.COMPILE_ERROR, "COMPILE_HOST"),
    3: (Outcome.COMPILE_ERROR, "COMPILE_DEVICE"),
    4: (Outcome.LAUNCH_ERROR, "RUNTIME_DEVICE"),
    5: (Outcome.WRONG_RESULT, "WRONG_ANSWER"),
    6: (Outcome.COMPILE_ERROR, "BUILD_TIMEOUT"),
    7: (Outcome.TIMEOUT, "RUN_TIMEOUT"),
    8: (Outcome.LAUNCH_ERROR, "UNKNOWN_ERROR"),
}
# TVM skips lines that begin with a space or #.
_BEGINS = re.compile(rb'(?:[# ].*\n)*\{\s*"i"\s*:')


class _Task(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What was measured and for which device; only the first two are in all versions."""

    workload_key: str
    target: str
    hardware: list[Whole] = []
    target_host: str = ""
    layout_rewrite: int = 0
    inputs: list[str] = []

    @property
    def cores(self) -> int:
        """Cores that the kernel could use; 0 where that is not said."""
        return self.hardware[0] if self.hardware else 0


class _Result(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What came of it."""

    costs_s: list[float]
    error: int
    took_s: float
    timestamp: float


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A line."""

    i: tuple[_Task, tuple[list[Any], list[Step]]]
    r: _Result
    v: str


def _read_log(file: InputFile, options: ReadOptions) -> Source:
    where = platform_file_for(file.path, options.platform)
    return Source.of(file.path, _entries(file.path, where))


def _entries(path: Path, where: PlatformFile | None) -> Iterator[Measurement | Reject]:
    """Read a log, one line at a time. Where a target names no device, the file of the platform has to.

    Raises:
        CostModelError: The file cannot be read, or nothing says the platform.
    """
    origin = Origin.of(path)
    platforms = _Platforms(path, where, origin, {})
    for number, line in numbered_lines(path, "a log of auto_scheduler"):
        if line.startswith((b"#", b" ")):
            continue
        try:
            yield _measurement(_parsed(line), platforms)
        except EntryError as error:
            yield origin.reject(str(error), line.decode(errors="replace"), number)


def _parsed(line: bytes) -> _Record:
    try:
        entry = parse_json(line.decode())
    except (ValueError, RecursionError):
        raise EntryError("a line must be JSON (a killed process leaves its last line incomplete)") from None
    version = entry.get("v") if isinstance(entry, dict) else None
    if version not in VERSIONS:
        raise EntryError(f"the version of a record must be one of {', '.join(VERSIONS)}")
    try:
        return msgspec.convert(entry, _Record)
    except (msgspec.ValidationError, OverflowError, RecursionError):
        raise EntryError("every step of a record must be in the format of auto_scheduler") from None


def _measurement(record: _Record, platforms: "_Platforms") -> Measurement:
    """The measurement of a record.

    Raises:
        EntryError: It contradicts itself, or a number is none.
    """
    (task, (_, steps)), result = record.i, record.r
    if result.error not in OUTCOMES:
        raise EntryError(f"error_no must be 0 to {max(OUTCOMES)}")
    outcome, error = OUTCOMES[result.error]
    config = config_of_steps(steps)
    return Measurement(
        candidate=Candidate(workload_of_key(task.workload_key), "auto_scheduler-steps", config),
        platform=platforms.of(task),
        outcome=outcome,
        latencies_s=_latencies_s(result) if outcome is Outcome.OK else (),
        runs_per_repeat=1 if outcome is Outcome.OK else 0,
        measured_at=_time(result.timestamp),
        error=error,
    )


def _latencies_s(result: _Result) -> tuple[float, ...]:
    if not result.costs_s:
        raise EntryError("a record without an error must have costs")
    return tuple(seconds(cost, 1.0, "costs") for cost in result.costs_s)


def _time(timestamp: float) -> str:
    """The time in UTC; empty for 0, which stands for none."""
    try:
        if not timestamp >= 0:
            raise ValueError  # noqa: TRY301 (as datetime itself does)
        return datetime.fromtimestamp(timestamp, UTC).isoformat() if timestamp else ""
    except (ValueError, OverflowError, OSError):
        raise EntryError("a timestamp must be seconds since 1970") from None


@dataclass(frozen=True)
class _Platforms:
    """Where the records of a file were measured.

    Attributes:
        path: The file.
        where: What its platform file says, if it has one.
        origin: The file by its checksum.
        known: Platforms by target and cores.
    """

    path: Path
    where: PlatformFile | None
    origin: Origin
    known: dict[tuple[str, int], Platform]

    def of(self, task: _Task) -> Platform:
        """The platform of a task.

        Raises:
            CostModelError: Nothing says it.
            EntryError: The target is for another kind of device.
        """
        key = (task.target, task.cores)
        if key not in self.known:
            self.known[key] = self._of(task)
        return self.known[key]

    def _of(self, task: _Task) -> Platform:
        if self.where and self.where.platform.device.kind != device_kind(task.target):
            raise EntryError("the target of a record must match the platform's kind of device")
        said = None if self.where else platform_of_target(task.target, task.cores)
        platform = said or needed_platform(self.where, self.path).platform
        software = {**platform.software, "auto_scheduler_log": self.origin.text}
        return msgspec.structs.replace(platform, software=software)


AUTO_SCHEDULER = Format("log of auto_scheduler", lambda file, _: bool(_BEGINS.match(file.head)), _read_log)
