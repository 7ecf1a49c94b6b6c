"""The decisions of a MetaSchedule trace, read from its JSON without TVM.

A trace is ``[instructions, decisions]``: an instruction ``[kind, inputs, attributes, outputs]``, its inputs
and outputs by the names of variables; a decision ``[position of the instruction, value]``. Source: TVM 0.27,
``src/s_tir/schedule/trace.cc`` (``TraceNode::AsJSON``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from costmodel.dataset.importers._entry import EntryError, decision, factors
from costmodel.records._candidate import Config, Decision
from costmodel.records._identity import content_id

_POSTPROC = "EnterPostproc"  # what follows was not chosen


class _Instruction(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One instruction."""

    kind: str
    inputs: list[Any]
    attributes: list[Any]
    outputs: list[str]


class _Trace(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Instructions, and positions with values."""

    instructions: list[_Instruction]
    decisions: list[tuple[int, Any]]


def config_of_trace(trace: Any) -> Config:
    """The decisions of a trace by name, and ``sketch``: which instructions they complete.

    A tile is named ``tile.<block>.<loop position>``, a choice by the annotation that it is for, as in
    ``cooperative_fetch.<block>``, or ``choice.<variable>``, a location ``compute_at.<block>``. A block that
    the trace makes itself has the name of its variable.

    Raises:
        EntryError: It is no trace, or a decision does not fit its instruction.
    """
    try:
        read = msgspec.convert(trace, _Trace)
        kinds = [instruction.kind for instruction in read.instructions]
        end = kinds.index(_POSTPROC) if _POSTPROC in kinds else len(kinds)
        instructions = read.instructions[:end]
        sketch = content_id(instructions)
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        raise EntryError("a trace must be a list of instructions and a list of decisions") from None
    values = dict(read.decisions)
    samples = {i: each for i, each in enumerate(instructions) if each.kind.startswith("Sample")}
    if len(values) < len(read.decisions) or not samples.keys() <= values.keys() <= set(range(len(kinds))):
        raise EntryError("a trace must have one decision for each sampling instruction")
    if {i for i in values if i < end} != samples.keys():
        raise EntryError("only sampling instructions can have decisions")
    names, seen = _Names(instructions), Counter[str]()
    decisions: dict[str, Decision] = {"sketch": sketch}
    for position, sample in samples.items():
        name = names.of(sample)
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}#{seen[name]}"
        decisions[unique] = _value(sample, values[position])
    return Config(decisions)


def _value(sample: _Instruction, value: Any) -> Decision:
    """What was decided: factors, the choice that a position stands for, or a location."""
    if isinstance(value, list):
        return factors(value)
    if type(value) is not int:
        raise EntryError("a decision must be an integer or a list of integers")
    if sample.kind != "SampleCategorical":
        return decision(value)
    choices = sample.attributes[0] if sample.attributes else None
    if not isinstance(choices, list) or not 0 <= value < len(choices):
        raise EntryError("the decision of a choice must be a position among its choices")
    return decision(choices[value])


class _Names:
    """Reads a trace as a graph to name its sampling instructions."""

    def __init__(self, instructions: Sequence[_Instruction]) -> None:
        self._instructions = instructions
        self._maker: Mapping[str, _Instruction] = {
            out: instruction for instruction in instructions for out in instruction.outputs
        }

    def of(self, sample: _Instruction) -> str:
        """Name of a decision; two may have the same."""
        source = next(iter(sample.inputs), None)
        if sample.kind == "SampleComputeLocation":
            return f"compute_at.{self._block(source)}"
        if sample.kind != "SampleCategorical":
            loops = self._made(source)
            if loops is None or loops.kind != "GetLoops" or not loops.inputs:
                return f"tile.{_text(source)}"
            return f"tile.{self._block(loops.inputs[0])}.{loops.outputs.index(_text(source))}"
        result = next(iter(sample.outputs), "")
        for use in self._instructions:
            if use.kind == "Annotate" and use.inputs[1:] == [result] and use.attributes:
                annotation = _text(use.attributes[0]).removeprefix("meta_schedule.")
                return f"{annotation}.{self._block(use.inputs[0])}"
        return f"choice.{result}"

    def _block(self, variable: Any) -> str:
        maker = self._made(variable)
        named = maker is not None and maker.kind in ("GetSBlock", "GetBlock") and maker.attributes
        return _text(maker.attributes[0]) if maker is not None and named else _text(variable)

    def _made(self, variable: Any) -> _Instruction | None:
        return self._maker.get(variable) if isinstance(variable, str) else None


def _text(value: Any) -> str:
    """A name; of anything that is none, nothing."""
    return value if isinstance(value, str) else ""
