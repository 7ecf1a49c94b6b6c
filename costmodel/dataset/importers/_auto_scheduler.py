"""Logs of TVM's auto_scheduler: a record of one measurement a line, as TenSet has them by the million.

A line is ``{"i": [task, state], "r": [seconds of each run, error, seconds that it all took, time], "v":
version}``, the task ``[workload key, target, hardware, host's target, ...]`` and the state ``[[], steps]``.
Source: TVM 0.14, ``src/auto_scheduler/measure_record.cc`` and ``python/tvm/auto_scheduler/measure.py``; later
versions of TVM have no auto_scheduler, and none is needed to read its logs.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from costmodel.dataset.importers._autotvm import TvmPlatforms, TvmResult, read_tvm_log
from costmodel.dataset.sources._base import InputFile, ReadOptions, workload_of_arguments
from costmodel.dataset.sources._document import parse_json
from costmodel.dataset.sources._entry import EntryError, to_factors
from costmodel.dataset.sources._source import FileContents
from costmodel.decoding import UNDECODABLE
from costmodel.records._candidate import SKETCH, Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._workload import Workload

_MOST_DIGITS = 15  # of the value of a pragma
# Beyond, JSON readers disagree.
Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class _Step(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A step of the stage that it changes."""

    stage: Whole


class _Split(_Step, tag="SP"):
    iterator: Whole
    extent: Whole
    lengths: list[Whole]
    inner_to_outer: Whole


class _ComputeAt(_Step, tag="CA"):
    target_stage: Whole
    target_iterator: Whole


class _Pragma(_Step, tag="PR"):
    iterator: Whole
    pragma: str


class _Annotation(_Step, tag="AN"):
    iterator: Whole
    annotation: Whole


class _Fuse(_Step, tag="FU"):
    iterators: list[Whole]


class _Reorder(_Step, tag="RE"):
    iterators: list[Whole]


class _FollowSplit(_Step, tag="FSP"):
    iterator: Whole
    source_step: Whole
    splits: Whole


class _FollowFusedSplit(_Step, tag="FFSP"):
    iterator: Whole
    source_steps: list[Whole]
    level: Whole
    is_factor: Whole


class _StorageAlign(_Step, tag="SA"):
    iterator: Whole
    factor: Whole
    offset: Whole


class _ComputeInline(_Step, tag="CI"):
    pass


class _ComputeRoot(_Step, tag="CR"):
    pass


class _CacheRead(_Step, tag="CHR"):
    scope: str
    readers: list[Whole]


class _CacheWrite(_Step, tag="CHW"):
    scope: str


class _RFactor(_Step, tag="RF"):
    iterator: Whole
    factor_iterator: Whole


Step = (
    _Split
    | _ComputeAt
    | _Pragma
    | _Annotation
    | _Fuse
    | _Reorder
    | _FollowSplit
    | _FollowFusedSplit
    | _StorageAlign
    | _ComputeInline
    | _ComputeRoot
    | _CacheRead
    | _CacheWrite
    | _RFactor
)


def config_of_steps(steps: Sequence[Step]) -> Config:
    """Return what the steps choose by name, and ``sketch``: what they are otherwise.

    A split is ``tile.<stage>.<iterator>`` (factors, outermost first), a pragma with a value such as
    ``auto_unroll_max_step.<stage>``, and the iterator of another stage that one is computed at
    ``compute_at.<stage>``. Stages and iterators are numbers: a log does not name them.

    Raises:
        EntryError: A split has factors that are none.
    """
    decisions: dict[str, Decision] = {}
    fixed: list[Any] = []
    seen = Counter[str]()
    for step in steps:
        name, value, rest = _chosen(step)
        fixed.append(rest)
        if name:
            seen[name] += 1
            decisions[name if seen[name] == 1 else f"{name}#{seen[name]}"] = value
    return Config({SKETCH: content_id(fixed), **decisions})


def _chosen(step: Step) -> tuple[str, Decision, Any]:
    """Name and value of what a step chooses, an empty name if nothing, and the rest of it."""
    match step:
        case _Split(stage, iterator, extent, lengths, inner_to_outer):
            rest = ["SP", stage, iterator, len(lengths), inner_to_outer]
            return f"tile.{stage}.{iterator}", _factors(extent, lengths, inner_to_outer), rest
        case _ComputeAt(stage, target_stage, target_iterator):
            return f"compute_at.{stage}", target_iterator, ["CA", stage, target_stage]
        case _Pragma(stage, iterator, pragma):
            name, _, value = pragma.partition("$")
            if value.isdecimal() and len(value) <= _MOST_DIGITS:
                return f"{name}.{stage}", int(value), ["PR", stage, iterator, name]
    return "", 0, msgspec.to_builtins(step)


def _factors(extent: int, lengths: list[int], inner_to_outer: int) -> tuple[int, ...]:
    """All factors of a split, outermost first; only those that are written where the extent is not (0)."""
    written = to_factors(lengths)
    if extent < 1:
        return written
    left = (-(-extent // math.prod(written)),)
    return left + written if inner_to_outer else written + left


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


def read_auto_scheduler(file: InputFile, options: ReadOptions) -> FileContents:
    return read_tvm_log(
        file,
        options,
        "auto_scheduler",
        lambda line, platforms: _measurement(_parsed(line), platforms),
        comments=(b"#", b" "),
    )


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
    except UNDECODABLE:
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
