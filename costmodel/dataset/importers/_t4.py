"""T4 files: results of any auto-tuner in the format that the community agreed on.

Source: results schema 1.0.0 of T4, a format of the auto-tuning community
(https://github.com/odgaard/TuningSchema, branch T4, ``results-schema.json``; a copy is
``kernel_tuner/schema/T4/1.0.0/results-schema.json`` of https://github.com/KernelTuner/kernel_tuner), as
``store_output_file`` of Kernel Tuner and the converter of KTT write it. The schema does not name the unit of
``times.runtimes``. Both writers repeat the objective among ``measurements``, with a unit there; files of the
public hub leave that empty, and name the unit in ``metadata.timeunit``.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from costmodel.dataset.sources._base import InputFile, ReadOptions, find_platform_file, require_platform
from costmodel.dataset.sources._document import Document
from costmodel.dataset.sources._entry import (
    KEY,
    PER_SECOND,
    EntryError,
    read_attached_records,
    to_decision,
    to_factors,
    to_milliseconds,
    to_seconds,
    to_utc,
)
from costmodel.dataset.sources._source import FileContents, Origin, Reject
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

OUTCOMES = {
    "correct": Outcome.OK,
    "constraints": Outcome.INVALID_CONFIG,
    "compile": Outcome.COMPILE_ERROR,
    "runtime": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "correctness": Outcome.WRONG_RESULT,
}
_INVALIDITY = {outcome: name for name, outcome in OUTCOMES.items()}
_WORDS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_WORDS |= {"miliseconds": "ms"}  # as files of the public hub spell it
_PER_SECOND = PER_SECOND | {word: PER_SECOND[unit] for word, unit in _WORDS.items()}
_TIME = "time"  # what Kernel Tuner calls the latency, whatever the objective is
_TOLERANCE = 0.01


class _Quantity(msgspec.Struct):
    """A row of ``measurements``."""

    name: str
    value: Any = None
    unit: str = ""


class _Times(msgspec.Struct):
    """The part of ``times`` that is read."""

    runtimes: list[Any] = []


class _Result(msgspec.Struct):
    """A result; fields that are not read may hold anything."""

    configuration: dict[str, Any]
    times: _Times
    invalidity: str
    correctness: float
    measurements: list[_Quantity] = []
    objectives: list[str] = []
    timestamp: str = ""


def read_result(result: Any, workload: Workload, platform: Platform, unit: str = "") -> Measurement:
    """Return the measurement that a result of another program stands for.

    Args:
        result: What stands in the list of results.
        workload: What was measured.
        platform: Where.
        unit: The unit that the file names for all results, for those that name none.

    Raises:
        EntryError: It is not of the schema, contradicts itself, or a number is none.
    """
    try:
        read = msgspec.convert(result, _Result)
    except UNDECODABLE:
        raise EntryError("a result must follow the T4 schema 1.0.0") from None
    if read.invalidity not in OUTCOMES:
        raise EntryError(f"invalidity must be one of {', '.join(OUTCOMES)}")
    outcome = OUTCOMES[read.invalidity]
    if outcome is Outcome.OK and not read.correctness > 0:
        raise EntryError("correctness of a correct result must be above 0")
    latencies_s = _latencies_s(read, unit) if outcome is Outcome.OK else ()
    decisions = {name: _decision(value) for name, value in read.configuration.items()}
    return Measurement(
        candidate=Candidate(workload, f"t4-{content_id(sorted(decisions))[:6]}", Config(decisions)),
        platform=platform,
        outcome=outcome,
        latencies_s=latencies_s,
        runs_per_repeat=1 if latencies_s else 0,
        measured_at=to_utc(read.timestamp),
        error="" if latencies_s else read.invalidity,
    )


def show_result(records: Sequence[Measurement]) -> Mapping[str, Any]:
    """Return the result of one measurement."""
    (one,) = records
    times = to_milliseconds(one.latencies_s)
    mean = [{"name": _TIME, "value": fmean(times), "unit": "ms"}] if times else []
    return {
        "timestamp": one.measured_at,
        "configuration": {name: _show(value) for name, value in one.candidate.config.decisions.items()},
        "times": {"runtimes": times},
        "invalidity": _INVALIDITY[one.outcome],
        "correctness": 0 if one.outcome is Outcome.WRONG_RESULT else 1,
        "measurements": mean,
        "objectives": [_TIME],
    }


def _latencies_s(result: _Result, unit: str) -> tuple[float, ...]:
    """Return the runtimes in seconds; what ``measurements`` say of them must lie among them."""
    values = result.times.runtimes
    if not values or any(isinstance(x, bool) or not isinstance(x, int | float) for x in values):
        raise EntryError("runtimes of a correct result must be a list of numbers")
    said = _latency(result, unit)
    per_second = _PER_SECOND[said.unit.lower()]
    latencies_s = tuple(to_seconds(value, per_second, "runtimes") for value in values)
    if isinstance(said.value, int | float) and not (
        min(values) * (1 - _TOLERANCE) <= said.value <= max(values) * (1 + _TOLERANCE)
    ):
        raise EntryError("the time in measurements must lie within the range of runtimes")
    return latencies_s


def _latency(result: _Result, unit: str) -> _Quantity:
    """What is said of the latency, with its unit: a row of ``measurements``, or the file's unit alone."""
    rows = [row for row in result.measurements if row.name in (_TIME, *result.objectives)]
    for row in rows:
        if row.unit.lower() in _PER_SECOND:
            return row
    if unit.lower() in _PER_SECOND:
        time = next((row.value for row in rows if row.name == _TIME and not row.unit), None)
        return _Quantity(_TIME, time, unit)
    raise EntryError(
        "measurements must contain the objective, or time, with a unit of time, or metadata.timeunit must "
        "give the unit; runtimes have the same unit"
    )


def _decision(value: Any) -> Decision:
    return to_factors(value) if isinstance(value, list) else to_decision(value)


def _show(value: Decision) -> int | float | str | list[int]:
    return list(value) if isinstance(value, tuple) else value


def read_t4(file: InputFile, options: ReadOptions) -> FileContents:
    """Yield what a T4 file holds. A file that we exported gives the records that it was made of.

    Others do not say where they were measured, nor what: the file of the platform does, or the options.

    Raises:
        CostModelError: It has no list of results, or nothing says the platform or the workload.
    """
    path, document = file.path, file.document
    if "results" not in document.counts:
        raise CostModelError(
            f"{path} must be a T4 file with a list of results, but its results are not a list."
        )
    origin = Origin.of(path)
    if KEY in document:
        return FileContents.of(path, _own_records(document, origin))
    where = require_platform(find_platform_file(path, options.platform), path)
    workloads = options.workloads
    workload = where.workload or (workloads[0] if len(workloads) == 1 else None)
    if workload is None:
        raise CostModelError(
            f"A T4 file does not name its workload, so exactly one must be given for {path.name}, but got "
            f"{len(workloads)}. Give `--workload suite.kernel-x4096`, or write the name as `workload` in "
            "the platform file."
        )
    software = {**where.platform.software, "t4_file": origin.text}
    measured_on = msgspec.structs.replace(where.platform, software=software)

    unit = _time_unit(document.fields.get("metadata"))

    def entries() -> Iterator[Measurement | Reject]:
        for number, (_, result) in enumerate(document.entries("results"), start=1):
            try:
                yield read_result(result, workload, measured_on, unit)
            except EntryError as error:
                yield origin.reject(str(error), result, number)

    return FileContents.of(path, entries())


def _time_unit(metadata: Any) -> str:
    """Return the unit that a file names for all of its runtimes; empty if it names none."""
    unit = metadata.get("timeunit") if isinstance(metadata, dict) else None
    return unit if isinstance(unit, str) else ""


def _own_records(document: Document, origin: Origin) -> Iterator[Measurement | Reject]:
    for number, (_, result) in enumerate(document.entries("results"), start=1):
        try:
            yield from read_attached_records(result, show_result)
        except EntryError as error:
            yield origin.reject(str(error), result, number)
