"""Logs of TVM's auto_scheduler: a record of one measurement a line, as TenSet has them by the million.

A line is ``{"i": [task, state], "r": [seconds of each run, error, seconds that it all took, time], "v":
version}``, the task ``[workload key, target, hardware, host's target, ...]`` and the state ``[[], steps]``.
Source: TVM 0.14, ``src/auto_scheduler/measure_record.cc`` and ``python/tvm/auto_scheduler/measure.py``; later
versions of TVM have no auto_scheduler, and none is needed to read its logs.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._auto_scheduler_steps import Step, Whole, config_of_steps
from costmodel.dataset.importers._base import InputFile, ReadOptions
from costmodel.dataset.importers._entry import EntryError
from costmodel.dataset.importers._foreign import workload_of_arguments
from costmodel.dataset.importers._json import parse_json
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, platform_file_for
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers._tvm_logs import TvmPlatforms, TvmResult
from costmodel.reading import read_lines
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._workload import Workload

# Which TVM reads alike; later ones only have more behind the task.
VERSIONS = ("v0.2", "v0.3", "v0.4", "v0.5", "v0.6")


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


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A line."""

    i: tuple[_Task, tuple[list[Any], list[Step]]]
    r: TvmResult
    v: str


def read_auto_scheduler(file: InputFile, options: ReadOptions) -> Source:
    where = platform_file_for(file.path, options.platform)
    return Source.of(file.path, _entries(file.path, where))


def _entries(path: Path, where: PlatformFile | None) -> Iterator[Measurement | Reject]:
    """Read a log, one line at a time. Where a target names no device, the file of the platform has to.

    Raises:
        CostModelError: The file cannot be read, or nothing says the platform.
    """
    origin = Origin.of(path)
    platforms = TvmPlatforms(path, where, origin, "auto_scheduler_log")
    for number, line in read_lines(path, "a log of auto_scheduler"):
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


def _measurement(record: _Record, platforms: TvmPlatforms) -> Measurement:
    """Make the measurement of a record.

    Raises:
        EntryError: It contradicts itself, or a number is none.
    """
    (task, (_, steps)), result = record.i, record.r
    outcome, error = result.outcome
    return Measurement(
        candidate=Candidate(_workload(task.workload_key), "auto_scheduler-steps", config_of_steps(steps)),
        platform=platforms.find(task.target, task.cores),
        outcome=outcome,
        latencies_s=result.latencies_s,
        runs_per_repeat=1 if outcome is Outcome.OK else 0,
        measured_at=result.measured_at,
        error=error,
    )


@lru_cache(maxsize=4096)
def _workload(key: str) -> Workload:
    """Make the workload of a key, which is JSON: a function's name or a hash, then its arguments.

    Raises:
        EntryError: It is no such key.
    """
    try:
        parts = json.loads(key)
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        raise EntryError("a workload key must be a JSON list that begins with a name or a hash")
    return workload_of_arguments("auto_scheduler", parts[0], parts[1:])
