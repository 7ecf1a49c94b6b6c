"""Results of the Kernel Tuning Toolkit (KTT) in JSON.

``{"Metadata": {"Device": ..., "TimeUnit": ...}, "Results": [{"KernelName": ..., "Status": "Ok",
"TotalDuration": ..., "Configuration": [{"Name": ..., "Value": ...}]}]}``. Source: KTT 2.1 (https://github.com/HiPerCoRe/KTT),
``Source/Output/JsonConverters.cpp``. It does not say the size of the problem.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from costmodel.dataset.sources._base import (
    InputFile,
    ReadOptions,
    add_software,
    find_given_workload,
    find_named_device,
    find_platform_file,
    foreign_workload,
    locate,
    make_candidate,
)
from costmodel.dataset.sources._entry import PER_SECOND, EntryError, to_decision, to_seconds
from costmodel.dataset.sources._source import Assumption, Entry, FileContents, Origin
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

_OUTCOMES = {
    "Ok": Outcome.OK,
    "ComputationFailed": Outcome.LAUNCH_ERROR,
    "ValidationFailed": Outcome.WRONG_RESULT,
    "CompilationFailed": Outcome.COMPILE_ERROR,
    "DeviceLimitsExceeded": Outcome.INVALID_CONFIG,
}
_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms", "Seconds": "s"}


class _Metadata(msgspec.Struct):
    """The fields that are read of what all results share."""

    Device: str
    TimeUnit: str
    KttVersion: str = ""


class _Pair(msgspec.Struct):
    """A parameter with its value."""

    Name: str
    Value: int | float | str | bool


class _Result(msgspec.Struct):
    """The fields that are read of a result."""

    KernelName: str
    Status: str
    Configuration: list[_Pair]
    TotalDuration: float = 0.0


def read_ktt(file: InputFile, options: ReadOptions) -> FileContents:
    """Read results; those of each kernel are one workload, as large as the options or the platform file say.

    Raises:
        CostModelError: The file does not say its device or unit of time.
    """
    try:
        metadata = msgspec.convert(file.document.fields["Metadata"], _Metadata)
        unit, count = _UNITS[metadata.TimeUnit], file.document.counts["Results"]
    except (*UNDECODABLE, KeyError):
        raise CostModelError(
            f"{file.path} must be a file of KTT with a list of Results, whose Metadata name Device and one "
            f"of the TimeUnits {', '.join(_UNITS)}, but is none. Correct it."
        ) from None
    return FileContents.of(file.path, _entries(file, metadata, PER_SECOND[unit], count, options))


def _entries(
    file: InputFile,
    metadata: _Metadata,
    per_second: float,
    count: int,
    options: ReadOptions,
) -> Iterator[Entry]:
    found = find_platform_file(file.path, options.platform)
    origin = Origin.of(file.path)
    where = locate(find_named_device(metadata.Device), metadata.Device, found)
    versions = {"ktt": metadata.KttVersion} if metadata.KttVersion else {}
    platform = add_software(where.platform, {**versions, "ktt_results": origin.text})
    sizes = (found.problem_size if found else ()) or options.problem_size
    dims = dict(zip("xyz", sizes, strict=False))
    given = find_given_workload(found, options)
    names = set[str]()
    for number, (_, entry) in enumerate(file.document.entries("Results"), start=1):
        try:
            result = _convert(entry)
            workload = foreign_workload("ktt", result.KernelName, result.KernelName, dims)
            yield _measurement(result, workload, given, platform, per_second)
        except EntryError as error:
            yield origin.reject(str(error), entry, number)
        else:
            names.add(workload.name)
    yield from where.repairs(count)
    if names and not sizes and given is None:
        yield Assumption(
            "Results of KTT do not say the size of their problem, and all of a kernel are taken as one. "
            "Give `--problem-size 4096,4096`, x first, and build files of several sizes one by one."
        )


def _convert(entry: Any) -> _Result:
    try:
        return msgspec.convert(entry, _Result)
    except UNDECODABLE:
        raise EntryError("a result must have KTT's KernelName, Status and Configuration") from None


def _measurement(
    result: _Result, workload: Workload, given: Workload | None, platform: Platform, per_second: float
) -> Measurement:
    """Make the measurement of a result; a failed one has the largest number as its duration.

    Raises:
        EntryError: It contradicts itself, or a number is none.
    """
    if result.Status not in _OUTCOMES:
        raise EntryError(f"Status must be one of {', '.join(_OUTCOMES)}")
    decisions = {pair.Name: to_decision(pair.Value) for pair in result.Configuration}
    if len(decisions) < len(result.Configuration):
        raise EntryError("a configuration must have each parameter once")
    outcome = _OUTCOMES[result.Status]
    ok = outcome is Outcome.OK
    return Measurement(
        candidate=make_candidate("ktt", workload, decisions, given),
        platform=platform,
        outcome=outcome,
        latencies_s=(to_seconds(result.TotalDuration, per_second, "TotalDuration"),) if ok else (),
        runs_per_repeat=1 if ok else 0,
        measured_at="",
        error="" if ok else result.Status,
    )
