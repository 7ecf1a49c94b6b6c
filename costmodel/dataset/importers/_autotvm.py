"""Logs of TVM's AutoTVM, version 0.2: a measurement a line, as its tuners and TopHub write them.

A line is ``{"input": [target, task, arguments, {}], "config": {"index": ..., "code_hash": ..., "entity":
[[name, kind, value], ...]}, "result": [[seconds of each run], error, seconds that it all took, time],
"version": 0.2, "tvm_version": ...}``. Source: TVM 0.14, ``python/tvm/autotvm/record.py`` and
``python/tvm/autotvm/task/space.py``; later versions have no AutoTVM, and none is needed to read its logs.

A result and a target are as in logs of auto_scheduler.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    find_platform_file,
    name_space,
    require_platform,
    workload_of_arguments,
)
from costmodel.dataset.sources._document import parse_json
from costmodel.dataset.sources._entry import EntryError, to_decision, to_factors, to_seconds
from costmodel.dataset.sources._source import FileContents, Origin, Reject
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.reading import read_lines
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._device_table import find_device
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, DeviceKind, Platform

# By ``error_no``, and what TVM calls it.
_OUTCOMES = {
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
_KINDS: dict[str, DeviceKind] = {"cuda": "cuda", "rocm": "hip", "hip": "hip", "llvm": "cpu", "c": "cpu"}
_ATTRIBUTE = re.compile(r"-([\w-]+)=(\S+)")


class TvmResult(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The result of a record."""

    costs_s: list[float]
    error_no: int
    took_s: float
    timestamp: float

    @property
    def outcome(self) -> tuple[Outcome, str]:
        """How it ended, and the message of a failure.

        Raises:
            EntryError: It is no error of TVM.
        """
        if self.error_no not in _OUTCOMES:
            raise EntryError(f"error_no must be 0 to {max(_OUTCOMES)}")
        return _OUTCOMES[self.error_no]

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Seconds of each run; none where it failed.

        Raises:
            EntryError: A number is none.
        """
        if self.error_no:
            return ()
        if not self.costs_s:
            raise EntryError("a record without an error must have costs")
        return tuple(to_seconds(cost, 1.0, "costs") for cost in self.costs_s)

    @property
    def measured_at(self) -> str:
        """The time in UTC; empty for 0, which stands for none.

        Raises:
            EntryError: It is no time.
        """
        try:
            if not self.timestamp >= 0:
                raise ValueError  # noqa: TRY301 (as datetime itself does)
            return datetime.fromtimestamp(self.timestamp, UTC).isoformat() if self.timestamp else ""
        except (ValueError, OverflowError, OSError):
            raise EntryError("a timestamp must be seconds since 1970") from None


@dataclass(frozen=True)
class TvmPlatforms:
    """Where the records of a log were measured.

    Attributes:
        path: The log.
        where: What its platform file says, if it has one.
        origin: The log by its checksum.
        software_key: By what the platform's software names the log.
    """

    path: Path
    where: PlatformFile | None
    origin: Origin
    software_key: str
    _known: dict[tuple[str, int], Platform] = field(default_factory=dict)

    def find(self, target: str, cores: int = 0) -> Platform:
        """Find the platform of a target.

        Args:
            target: The target, such as ``cuda -keys=cuda,gpu -model=t4``.
            cores: Of a CPU, the threads that the kernel could use, as the record has it; 0 where it has not.

        Raises:
            CostModelError: Nothing says it.
            EntryError: The target is for another kind of device.
        """
        if (target, cores) not in self._known:
            self._known[target, cores] = self._find(target, cores)
        return self._known[target, cores]

    def _find(self, target: str, cores: int) -> Platform:
        if self.where and self.where.platform.device.kind != _device_kind(target):
            raise EntryError("the target of a record must match the platform's kind of device")
        said = None if self.where else _platform_of_target(target, cores)
        platform = said or require_platform(self.where, self.path).platform
        software = {**platform.software, self.software_key: self.origin.text}
        return msgspec.structs.replace(platform, software=software)


def read_tvm_log(
    file: InputFile,
    options: ReadOptions,
    tool: str,
    measurement: Callable[[bytes, TvmPlatforms], Measurement],
    comments: tuple[bytes, ...] = (),
) -> FileContents:
    """Read a log of one of TVM's tuners. Where a target names no device, the file of the platform has to.

    Args:
        file: The log.
        options: How to read it.
        tool: Name of the tuner.
        measurement: Makes the measurement of a line, or raises an ``EntryError``.
        comments: What the lines begin with that hold no record.

    Raises:
        CostModelError: While it is read: it cannot be, or nothing says the platform.
    """
    path = file.path
    where = find_platform_file(path, options.platform)

    def entries() -> Iterator[Measurement | Reject]:
        origin = Origin.of(path)
        platforms = TvmPlatforms(path, where, origin, f"{tool.lower()}_log")
        for number, line in read_lines(path, f"a log of {tool}"):
            if line.startswith(comments):
                continue
            try:
                yield measurement(line, platforms)
            except EntryError as error:
                yield origin.reject(str(error), line.decode(errors="replace"), number)

    return FileContents.of(path, entries())


def _device_kind(target: str) -> DeviceKind:
    kind, *_ = target.split() or [""]
    if kind not in _KINDS:
        raise EntryError(f"a target must begin with one of {', '.join(_KINDS)}")
    return _KINDS[kind]


@lru_cache(maxsize=4096)
def _platform_of_target(target: str, cores: int) -> Platform | None:
    """Return the whole device that a target names by ``model`` or, of a CPU, ``mcpu``; None for no name."""
    kind = _device_kind(target)
    said: dict[str, str] = dict(_ATTRIBUTE.findall(target))
    model = said.get("model", "unknown")
    if kind == "cpu" and model == "unknown":
        model = said.get("mcpu", "unknown")
    if model == "unknown":
        return None
    try:
        device = find_device(model)
    except CostModelError:
        sms = cores if kind == "cpu" else 0
        device = Device(model, kind, said.get("arch", said.get("mcpu", "")), max(0, sms), clock_mhz=0.0)
    return Platform(device, "whole", device.sms, device.sms, {"tvm_target": target})


class _Choice(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A parameter with what was chosen: a split, an order or annotations of loops, or another option."""

    name: str
    kind: Literal["sp", "re", "an", "ot"]
    value: Any


class _Config(msgspec.Struct):
    """The fields that are read of a config: the others follow from them, or from the program's code."""

    entity: list[_Choice]


class _Record(msgspec.Struct):
    """A line; of its versions, that of TVM may be missing."""

    input: tuple[str, str, list[Any], dict[str, Any]]
    config: _Config
    result: TvmResult
    version: float
    tvm_version: str = ""


def read_autotvm(file: InputFile, options: ReadOptions) -> FileContents:
    return read_tvm_log(file, options, "AutoTVM", lambda line, where: _measurement(_parse(line), where))


def _parse(line: bytes) -> _Record:
    try:
        record = msgspec.convert(parse_json(line.decode()), _Record)
    except UNDECODABLE:
        raise EntryError("a record must have AutoTVM's input, config, result and version") from None
    except (ValueError, OverflowError, RecursionError):
        raise EntryError("a line must be JSON (a killed process leaves its last line incomplete)") from None
    if record.version != 0.2:
        raise EntryError("the version of a record must be 0.2")
    return record


def _measurement(record: _Record, platforms: TvmPlatforms) -> Measurement:
    """Make the measurement of a record.

    Raises:
        EntryError: It contradicts itself, or a number is none.
    """
    target, task, arguments, options = record.input
    choices = {choice.name: _decide(choice) for choice in record.config.entity}
    if len(choices) < len(record.config.entity):
        raise EntryError("a config must choose each parameter once")
    try:
        workload = workload_of_arguments("autotvm", task, [*arguments, options] if options else arguments)
    except (ValueError, OverflowError, RecursionError):
        raise EntryError("the arguments of a task must be JSON of moderate depth and size") from None
    outcome, error = record.result.outcome
    return Measurement(
        candidate=Candidate(workload, name_space("autotvm", choices), Config(choices)),
        platform=platforms.find(target),
        outcome=outcome,
        latencies_s=record.result.latencies_s,
        runs_per_repeat=1 if outcome is Outcome.OK else 0,
        measured_at=record.result.measured_at,
        error=error,
    )


def _decide(choice: _Choice) -> Decision:
    """Read what was chosen; of a split without the outermost factor if that is -1, as it follows."""
    value = choice.value
    if choice.kind == "sp":
        return to_factors(value[1:] if isinstance(value, list) and value[:1] == [-1] and value[1:] else value)
    if choice.kind == "ot" and not isinstance(value, list):
        return str(value) if value is None else to_decision(value)
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        raise EntryError("an order or annotations of loops must be a list of numbers or texts")
    return ",".join(map(str, value))
