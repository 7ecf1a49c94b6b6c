"""Logs of TVM's AutoTVM, version 0.2: a measurement a line, as its tuners and TopHub write them.

A line is ``{"input": [target, task, arguments, {}], "config": {"index": ..., "code_hash": ..., "entity":
[[name, kind, value], ...]}, "result": [[seconds of each run], error, seconds that it all took, time],
"version": 0.2, "tvm_version": ...}``. Source: TVM 0.14, ``python/tvm/autotvm/record.py`` and
``python/tvm/autotvm/task/space.py``; later versions have no AutoTVM, and none is needed to read its logs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from costmodel.dataset.importers._base import InputFile, ReadOptions
from costmodel.dataset.importers._entry import EntryError, decision, factors
from costmodel.dataset.importers._foreign import name_space, workload_of_arguments
from costmodel.dataset.importers._json import parse_json
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, platform_file_for
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.importers._tvm_logs import TvmPlatforms, TvmResult
from costmodel.reading import read_lines
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._measurement import Measurement, Outcome


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


def read_autotvm(file: InputFile, options: ReadOptions) -> Source:
    where = platform_file_for(file.path, options.platform)
    return Source.of(file.path, _entries(file.path, where))


def _entries(path: Path, where: PlatformFile | None) -> Iterator[Measurement | Reject]:
    """Read a log, one line at a time. Where a target names no device, the file of the platform has to.

    Raises:
        CostModelError: The file cannot be read, or nothing says the platform.
    """
    origin = Origin.of(path)
    platforms = TvmPlatforms(path, where, origin, "autotvm_log")
    for number, line in read_lines(path, "a log of AutoTVM"):
        try:
            yield _measurement(_parse(line), platforms)
        except EntryError as error:
            yield origin.reject(str(error), line.decode(errors="replace"), number)


def _parse(line: bytes) -> _Record:
    try:
        record = msgspec.convert(parse_json(line.decode()), _Record)
    except msgspec.ValidationError:
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
        return factors(value[1:] if isinstance(value, list) and value[:1] == [-1] and value[1:] else value)
    if choice.kind == "ot" and not isinstance(value, list):
        return str(value) if value is None else decision(value)
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        raise EntryError("an order or annotations of loops must be a list of numbers or texts")
    return ",".join(map(str, value))
