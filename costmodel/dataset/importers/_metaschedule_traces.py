"""Traces of MetaSchedule: what each stands for, a config of our space or a foreign one.

A trace is ``[instructions, decisions]``: an instruction ``[kind, inputs, attributes, outputs]``, its inputs
and outputs by the names of variables; a decision ``[position of the instruction, value]``. Source: TVM 0.27,
``src/s_tir/schedule/trace.cc`` (``TraceNode::AsJSON``). Decisions are read from the JSON; TVM
applies a sample of the traces, which takes a hundred times as long.
"""

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import msgspec

from costmodel.dataset.importers._apply_traces import TraceApplier
from costmodel.dataset.sources._entry import EntryError, to_decision, to_factors
from costmodel.decoding import UNDECODABLE
from costmodel.errors import InvalidConfigError
from costmodel.kernels.metaschedule._source import open_space
from costmodel.records._candidate import SKETCH, Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

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
    """Return the decisions of a trace by name, and ``sketch``: which instructions they complete.

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
    except UNDECODABLE:
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
    """Return what was decided: factors, the choice that a position stands for, or a location."""
    if isinstance(value, list):
        return to_factors(value)
    if type(value) is not int:
        raise EntryError("a decision must be an integer or a list of integers")
    if sample.kind != "SampleCategorical":
        return to_decision(value)
    choices = sample.attributes[0] if sample.attributes else None
    if not isinstance(choices, list) or not 0 <= value < len(choices):
        raise EntryError("the decision of a choice must be a position among its choices")
    return to_decision(choices[value])


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
    """Return a name; of anything that is none, nothing."""
    return value if isinstance(value, str) else ""


class OurKernels:
    """Kernels of a workload of ours.

    Args:
        workload: The workload that the program is.
        kind: Kind of device.
        applier: Applies traces.
    """

    def __init__(self, workload: Workload, kind: TargetKind, applier: TraceApplier) -> None:
        self._space, self._kind, self._applier = open_space(workload, kind), kind, applier
        self._foreign_sketches: set[Decision] = set()

    def read(self, trace: Any, sketch: Decision) -> Config | None:
        """Return the config of a trace in our space; None where it was drawn from another.

        What is not written as our sketches are is replayed, and once for a sketch that is none of ours.

        Args:
            trace: The trace in JSON.
            sketch: What traces of the same instructions have in common.
        """
        if sketch in self._foreign_sketches:
            return None
        config = self._space.read_config(trace) or self.applied(trace)
        if config is None:
            self._foreign_sketches.add(sketch)
        return config

    def applied(self, trace: Any) -> Config | None:
        """Return the config that TVM applies; None where it cannot, or where it is of no sketch of ours."""
        return self._applier.read(self._space.workload, self._kind, trace)

    def candidate(self, config: Config, *, lower: bool) -> Candidate:
        """The candidate of a config, lowered for its launches where that is asked for and can be done."""
        if lower:
            try:
                return self._space.candidate(config)
            except InvalidConfigError:  # made for a device with other limits
                pass
        return Candidate(self._space.workload, self._space.name, config)


class ForeignKernels:
    """Kernels of a program that is none of ours, or that were drawn from another space than ours.

    Args:
        structural_hash: First column of the program's row.
        text: Second column.
        applier: Applies traces.
    """

    def __init__(self, structural_hash: str, text: str, applier: TraceApplier) -> None:
        self._workload = Workload(f"metaschedule.p{content_id(text)}", {}, "")
        self._program, self._applier = (structural_hash, text), applier

    def applied(self, trace: Any, config: Config) -> Config:
        """The config that TVM applies; ``config``, which was read, where it cannot replay the trace."""
        replayed = self._applier.replay(self._program, trace) if find_spec("tvm") else None
        if replayed is None:
            return config
        # Versions of TVM write the same instructions differently.
        return Config({**config_of_trace(replayed).decisions, SKETCH: config.decisions[SKETCH]})

    def candidate(self, config: Config, trace: Any, *, lower: bool) -> Candidate:
        """The candidate of a config, lowered for its launches where that is asked for and can be done."""
        launches = self._applier.lower(self._program, trace) if lower else ()
        return Candidate(self._workload, "metaschedule-trace", config, launches)


# Records of a program whose traces are replayed to verify what was read: the first, and of all one in.
FIRST, ONE_IN = 3, 50


class ReplayDiffersError(Exception):
    """TVM applies other decisions than a trace says. The message says which."""


@dataclass
class TraceReader:
    """A program, and how the traces that schedule it are read.

    Attributes:
        foreign: As a program of others.
        ours: As a workload of ours, where it is known as one.
        lower_foreign: Whether to lower each foreign trace, for what its kernels launch.
        lower_ours: Whether to lower each of ours.
        records: How many were read.
    """

    foreign: ForeignKernels
    ours: OurKernels | None
    lower_foreign: bool
    lower_ours: bool
    records: int = 0

    def candidate(self, trace: Any, line: bytes) -> Candidate:
        """The candidate of a trace: one of our space where it follows a sketch of that, else a foreign one.

        Args:
            trace: The trace in JSON.
            line: The record that it is in; the sample that is verified is chosen by it.

        Raises:
            EntryError: It is no trace.
            ReplayDiffersError: It is of the sample, and TVM applies other decisions.
        """
        named = config_of_trace(trace)  # also keeps what is no trace away from TVM
        self.records += 1
        is_sampled = self.records <= FIRST or zlib.crc32(line) % ONE_IN == 0
        config = self.ours.read(trace, named.decisions[SKETCH]) if self.ours else None
        if self.ours and config:
            if is_sampled:
                _check(config, self.ours.applied(trace))
            return self.ours.candidate(config, lower=self.lower_ours)
        if is_sampled:
            _check(named, self.foreign.applied(trace, named))
        return self.foreign.candidate(named, trace, lower=self.lower_foreign)


def _check(read: Config, applied: Config | None) -> None:
    """Raise an error where TVM applies something else than was read."""
    if applied is None:
        raise ReplayDiffersError("its instructions are those of a sketch, but TVM cannot apply them")
    one, other = read.decisions, applied.decisions
    if one != other:
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        raise ReplayDiffersError(
            "; ".join(f"{name} is {one.get(name)} there and {other.get(name)} once applied" for name in names)
        )
