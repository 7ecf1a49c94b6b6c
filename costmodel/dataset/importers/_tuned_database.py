"""Databases of costmodel's options for TVM: programs, and what was measured of their traces where.

A line is a checked one, as in a record store, and holds ``{"type": "program", "key": ..., "fields": [hash,
text]}``, ``{"type": "device", "device": ...}``, or ``{"type": "measured", "program": key, "device": its name,
"trace": ...}``. Where TVM is installed, programs are recognised as tuning recognises them, so that models can
learn from what was tuned.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from costmodel.dataset.importers._apply_traces import TraceApplier
from costmodel.dataset.importers._metaschedule import NO_REASON
from costmodel.dataset.importers._metaschedule_traces import ForeignKernels, config_of_trace
from costmodel.dataset.sources._base import InputFile, ReadOptions, find_named_device, find_platform_file
from costmodel.dataset.sources._entry import EntryError, to_seconds, to_utc
from costmodel.dataset.sources._source import FileContents, Origin, Reject
from costmodel.decoding import UNDECODABLE
from costmodel.records._candidate import Candidate
from costmodel.records._line_file import LineFile
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, DeviceKind, Isolation, Platform

_KINDS: dict[str, DeviceKind] = {"cuda": "cuda", "rocm": "hip", "llvm": "cpu", "c": "cpu"}


class _Program(msgspec.Struct, tag="program"):
    """A program that was tuned."""

    key: str
    fields: tuple[str, str]


class _Device(msgspec.Struct, tag="device"):
    """A device that measured."""

    device: Device


class _Measured(msgspec.Struct, tag="measured"):
    """The fields that are read of a measurement."""

    program: str
    device: str
    isolation: Isolation
    sms_requested: int
    sms_granted: int
    latencies_s: list[float]
    trace: Any
    full_target: str
    measured_at: str = ""


class _Target(msgspec.Struct):
    """The field that is read of a target."""

    kind: str


def read_tuned_database(file: InputFile, options: ReadOptions) -> FileContents:
    """Read what was tuned.

    Raises:
        CostModelError: The file is damaged before its last line.
    """
    return FileContents.of(file.path, _entries(file.path, options, TraceApplier()))


def _entries(path: Path, options: ReadOptions, applier: TraceApplier) -> Iterator[Measurement | Reject]:
    origin, found = Origin.of(path), find_platform_file(path, options.platform)
    programs: dict[str, tuple[str, str]] = {}
    devices: dict[str, Device] = {}
    visits: dict[tuple[str, str], int] = {}
    for number, line in LineFile(path, "the database").read_new():
        try:
            entry = msgspec.json.decode(line, type=_Program | _Device | _Measured)
        except UNDECODABLE:
            yield origin.reject(
                "a line must be a program or a measurement of TVM", line.decode(errors="replace"), number
            )
            continue
        if isinstance(entry, _Program):
            programs[entry.key] = entry.fields
            continue
        if isinstance(entry, _Device):
            devices[entry.device.name] = entry.device
            continue
        try:
            platform = _platform(entry, found.platform.device if found else devices.get(entry.device), origin)
            yield _measurement(entry, programs, platform, applier, visits)
        except EntryError as error:
            yield origin.reject(str(error), line.decode(errors="replace"), number)


def _measurement(
    entry: _Measured,
    programs: dict[str, tuple[str, str]],
    platform: Platform,
    applier: TraceApplier,
    visits: dict[tuple[str, str], int],
) -> Measurement:
    """Make the measurement of an entry; the second of one kernel on one platform is a visit of its own.

    Raises:
        EntryError: It cannot be believed.
    """
    if entry.program not in programs:
        raise EntryError("a measurement must stand behind its program")
    latencies_s = tuple(to_seconds(latency, 1.0, "latencies") for latency in entry.latencies_s)
    candidate = _candidate(entry, programs[entry.program], platform.device.kind, applier)
    key = candidate.candidate_id, platform.platform_id
    visits[key] = visits.get(key, -1) + 1
    return Measurement(
        candidate=candidate,
        platform=platform,
        outcome=Outcome.OK if latencies_s else Outcome.LAUNCH_ERROR,
        latencies_s=latencies_s,
        runs_per_repeat=1 if latencies_s else 0,
        visit=min(visits[key], 1),
        measured_at=to_utc(entry.measured_at),
        error="" if latencies_s else NO_REASON,
    )


def _candidate(
    entry: _Measured, program: tuple[str, str], kind: DeviceKind, applier: TraceApplier
) -> Candidate:
    """Make the candidate of a trace: of the program's space where TVM can tell it, else a foreign one."""
    config = config_of_trace(entry.trace)  # also keeps what is no trace away from TVM
    has_tvm = find_spec("tvm") is not None
    ours = applier.recognise(program, kind, entry.trace) if has_tvm and kind in ("cuda", "cpu") else None
    return ours or ForeignKernels(*program, applier).candidate(config, entry.trace, lower=has_tvm)


def _platform(entry: _Measured, known: Device | None, origin: Origin) -> Platform:
    """Make the platform of an entry; its file, or one of a platform, may know more of its device.

    Raises:
        EntryError: Its target or SMs are none.
    """
    try:
        kind = _KINDS[msgspec.json.decode(entry.full_target, type=_Target).kind]
    except (*UNDECODABLE, KeyError):
        raise EntryError(f"the target of a measurement must be of kind {', '.join(_KINDS)}") from None
    if not (0 <= entry.sms_granted < 2**31 and 0 <= entry.sms_requested < 2**31):
        raise EntryError("SMs must be integers from 0")
    device = known or find_named_device(entry.device)
    if device.name != entry.device or device.kind != kind:
        device = Device(entry.device, kind, architecture="", sms=entry.sms_granted, clock_mhz=0.0)
    software = {"tvm_database": origin.text}
    return Platform(device, entry.isolation, entry.sms_requested, entry.sms_granted, software)
