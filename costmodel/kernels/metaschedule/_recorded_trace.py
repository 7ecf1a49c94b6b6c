"""The config of a trace in JSON, without a schedule to replay it on.

A trace is ``[instructions, decisions]``: an instruction ``[kind, inputs, attributes, outputs]``, its inputs
and outputs by the names of variables; a decision ``[position of the instruction, value]``. Source: TVM 0.27,
``src/s_tir/schedule/trace.cc`` (``TraceNode::AsJSON``, ``TraceNode::Simplified``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from tvm.s_tir.schedule import InstructionKind

from costmodel.kernels.metaschedule._sketch import Sketch
from costmodel.records._candidate import SKETCH, Config

_POSTPROC = "EnterPostproc"  # what follows completes the schedule and chooses nothing

Instruction = Sequence[Any]


def read_config(sketches: Sequence[Sketch], trace: Any) -> Config | None:
    """The config of a trace; None where no sketch has its instructions, with its decisions as choices."""
    skeletons = tuple(sketch.skeleton for sketch in sketches)
    samples, fitting = _fitting(json.dumps(_before_postproc(trace[0])), skeletons)
    written = dict(trace[1])
    decisions = [written.get(at) for at in samples]
    for position in fitting:
        sketch = sketches[position]
        if sketch.samples(decisions):
            named = sketch.decisions_of(decisions)
            if sketch.holds(named):
                return Config({SKETCH: position, **named})
    return None


def _before_postproc(instructions: Sequence[Instruction]) -> Sequence[Instruction]:
    """The instructions that choose; those of postprocessors differ with what was decided."""
    kinds = [instruction[0] for instruction in instructions]
    return instructions[: kinds.index(_POSTPROC)] if _POSTPROC in kinds else instructions


@lru_cache(maxsize=1024)
def _fitting(text: str, skeletons: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Positions of the instructions in JSON that sample, and of the sketches with these instructions.

    All traces of a sketch have the same. They equal those of a database, whose writers have true or 1.
    """
    needed = _simplified(_read_texts(json.loads(text)))
    skeleton = [instruction for _, instruction in needed]
    samples = [at for at, (kind, *_) in needed if kind.startswith("Sample")]
    fits = [_read_texts(json.loads(each)) == skeleton for each in skeletons]
    return samples, [position for position, fit in enumerate(fits) if fit]


def _read_texts(value: Any) -> Any:
    """The same with objects in place of texts that hold one, as of an index map: its spaces do not count."""
    if isinstance(value, list):
        return [_read_texts(each) for each in value]
    return _read_text(value) if isinstance(value, str) and value.startswith("{") else value


@lru_cache(maxsize=1024)
def _read_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _simplified(instructions: Sequence[Instruction]) -> list[tuple[int, Instruction]]:
    """The instructions that a trace cannot do without, each with its position in the trace.

    Left out are those that change nothing and whose outputs nothing uses. Variables have the names that TVM
    gives them when it writes the rest.
    """
    used: set[str] = set()
    needed: list[tuple[int, Instruction]] = []
    for position in reversed(range(len(instructions))):
        kind, inputs, _, outputs = instructions[position]
        if not _is_pure(kind) or not used.isdisjoint(outputs):
            needed.append((position, instructions[position]))
            used.update(_texts(inputs))
    return _renamed(needed[::-1])


def _renamed(instructions: Sequence[tuple[int, Instruction]]) -> list[tuple[int, Instruction]]:
    """The instructions with variables counted from 0: a letter for what it is, and a number."""
    names: dict[str, str] = {}
    renamed: list[tuple[int, Instruction]] = []
    for position, (kind, inputs, attributes, outputs) in instructions:
        sources = [_replaced(each, names) for each in inputs]
        for output in outputs:
            names[output] = f"{output[:1]}{len(names)}"
        renamed.append((position, [kind, sources, attributes, [names[output] for output in outputs]]))
    return renamed


def _replaced(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_replaced(each, names) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, names) for key, each in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def _texts(value: Any) -> Iterator[str]:
    """The texts in nested lists and objects: names of variables, and others."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


@cache
def _is_pure(kind: str) -> bool:
    """Whether instructions of a kind change nothing; False for one that this version of TVM does not know."""
    try:
        return bool(InstructionKind.get(kind).is_pure)
    except Exception:  # noqa: BLE001 (TVM raises its own error types)
        return False
