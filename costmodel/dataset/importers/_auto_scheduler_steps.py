"""The transform steps of an auto_scheduler record, and the config that they are.

A step is a list of its kind, the stage that it changes, and its arguments; stages and iterators are counted
as they are when the step is taken. Source: TVM 0.14, ``src/auto_scheduler/transform_step.cc``.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from costmodel.dataset.importers._entry import factors
from costmodel.records._candidate import SKETCH, Config, Decision
from costmodel.records._identity import content_id

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
    """What the steps choose by name, and ``sketch``: what they are otherwise.

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
    written = factors(lengths)
    if extent < 1:
        return written
    left = (-(-extent // math.prod(written)),)
    return left + written if inner_to_outer else written + left
