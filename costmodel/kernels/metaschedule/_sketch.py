"""A sketch of a MetaSchedule design space: a trace whose sampling instructions are named parameters."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from costmodel.kernels.metaschedule._choices import choices_of, plain_json
from costmodel.kernels.metaschedule._parameters import Categorical, SketchParameter, Tile
from costmodel.kernels.metaschedule._shared_memory import (
    PIPELINE_STAGES,
    SharedMemoryBound,
    shared_memory_bounds,
    side_extents,
)
from costmodel.kernels.metaschedule._sketch_names import SketchNames
from costmodel.records._candidate import Decision

# Where a block may be computed: -2 inlined, -1 at the root, else a loop's position. The deepest nest is that
# of conv2d on a CPU: four spatial loops in four parts and three reductions in two are 22 loops.
_COMPUTE_LOCATIONS = tuple(range(-2, 22))


@dataclass(frozen=True)
class AxisExtent:
    """Extent of a bound axis as a product of tile factors, and the most that it may be."""

    factors: tuple[tuple[str, int], ...]
    low: int
    high: int

    def holds(self, decisions: Mapping[str, Decision]) -> bool:
        """Whether the extent that these decisions give is within the bounds."""
        extent = math.prod(_factor(decisions[name], part) for name, part in self.factors)
        return self.low <= extent <= self.high


def _factor(value: Decision, part: int) -> int:
    assert isinstance(value, tuple)
    return value[part]


class Sketch:
    """One sketch: its parameters in order of their instructions, and the trace that they complete.

    Attributes:
        trace: The trace, with the decisions that the space generator made.
        skeleton: Canonical JSON of the instructions without decisions; equal for traces of the same sketch.
        parameters: The named decisions.
        choices: What its trace samples.
        constraints: Bounds on loop extents and shared memory that a config must meet to be worth lowering.
    """

    def __init__(self, schedule: Any, original: Any, shared_limit_bytes: int) -> None:
        """Name the sampling instructions of ``schedule``.

        Args:
            schedule: Schedule that the space generator gave.
            original: Schedule of the unscheduled module, which knows the loops' names.
            shared_limit_bytes: Shared memory that a block can have; it matters only on a GPU.
        """
        self.trace = schedule.trace.simplified(remove_postproc=True)
        self.skeleton = skeleton_of(self.trace)
        self.choices = choices_of(self.trace)
        samples = [inst for inst in self.trace.insts if inst.kind.name.startswith("Sample")]
        names = SketchNames(schedule, self.trace, original)
        self.parameters: tuple[SketchParameter, ...] = tuple(
            _parameter(inst, name, self.trace.decisions[inst])
            for inst, name in zip(samples, names.of(samples), strict=True)
        )
        bounds = _axis_bounds(self.trace)
        self.constraints: tuple[AxisExtent | SharedMemoryBound, ...] = (
            *(
                AxisExtent(factors, *bounds[axis])
                for axis, factors in names.tiled_axes(samples)
                if axis in bounds
            ),
            *shared_memory_bounds(
                original, self.trace, {p.name for p in self.parameters}, shared_limit_bytes
            ),
        )

    @property
    def tensorized(self) -> bool:
        """Whether its kernels compute on Tensor Cores."""
        return "meta_schedule.auto_tensorize" in self.skeleton

    def apply(self, decisions: Mapping[str, Decision], module: Any) -> Any:
        """Schedule of ``module`` with these decisions, before the postprocessors."""
        return self.apply_by(self.trace, decisions, module)

    def apply_by(self, trace: Any, decisions: Mapping[str, Decision], module: Any) -> Any:
        """Schedule of another module, by a trace of it that begins by sampling what this sketch samples.

        What the trace samples behind that stays as it was decided.
        """
        samples = [inst for inst in trace.insts if inst.kind.name.startswith("Sample")]
        chosen = dict(trace.decisions.items()) | {
            inst: _to_trace(parameter, decisions[parameter.name])
            for inst, parameter in zip(samples, self.parameters, strict=False)
        }
        # The seed matters only to postprocessors that sample; fixed, it makes a config one kernel.
        schedule = Schedule(module, seed=1, debug_mask=0)
        Trace(trace.insts, chosen).apply_to_schedule(schedule, remove_postproc=True)
        return schedule

    def holds(self, decisions: Mapping[str, Decision]) -> bool:
        """Whether each decision is a choice of its parameter."""
        return all(parameter.contains(decisions[parameter.name]) for parameter in self.parameters)

    def worth_lowering(self, decisions: Mapping[str, Decision]) -> bool:
        """Whether the constraints hold: arithmetic that saves lowering most of what would be refused."""
        return all(bound.holds(decisions) for bound in self.constraints)

    def samples(self, decisions: Sequence[Any]) -> bool:
        """Whether each decision of a trace, of any origin, is of the type that its parameter samples."""
        return all(
            _is_sample(parameter, decision)
            for parameter, decision in zip(self.parameters, decisions, strict=True)
        )

    def decisions_of(self, decisions: Sequence[Any]) -> dict[str, Decision]:
        """Decisions by name, from those of a trace that samples what this sketch samples, and maybe more."""
        return {
            parameter.name: _from_trace(parameter, decision)
            for parameter, decision in zip(self.parameters, decisions, strict=False)
        }


def skeleton_of(trace: Any) -> str:
    """Canonical JSON of a simplified trace's instructions, decisions left out."""
    return json.dumps(plain_json(trace.as_json()[0]))


def _axis_bounds(trace: Any) -> dict[str, tuple[int, int]]:
    """Least and most iterations of the axes that have bounds.

    MetaSchedule annotates how many threads a block may have, and refuses others. It names a limit of 8
    virtual threads too (src/s_tir/meta_schedule/postproc/verify_gpu_code.cc), which TVM 0.27 does not
    enforce: draws keep it, but configs beyond it (another tuner's traces) can be scheduled. Tensorised
    sketches bind threadIdx.y alone, to warps. A pipeline needs a second iteration to overlap with the first.
    """
    notes = {str(i.attrs[0]): i.inputs[1] for i in trace.insts if i.kind.name == "Annotate"}
    low, high = (int(notes.get(f"meta_schedule.thread_extent_{end}_inclusive", 1)) for end in ("low", "high"))
    return {
        "threadIdx.x": (low, high),
        "threadIdx.y": (1, high // 32),
        "vthread.x": (1, 8),
        PIPELINE_STAGES: (2, sys.maxsize),
    }


def _parameter(inst: Any, name: str, decision: Any) -> SketchParameter:
    """The parameter of a sampling instruction; any decision of a tile tells the loop's extent."""
    if inst.kind.name == "SampleCategorical":
        choices, probabilities = inst.attrs
        return Categorical(name, tuple(map(int, choices)), tuple(map(float, probabilities)))
    if inst.kind.name == "SampleComputeLocation":
        return Categorical(name, _COMPUTE_LOCATIONS, (1.0,) * len(_COMPUTE_LOCATIONS))
    parts, max_innermost = map(int, inst.attrs)
    return Tile(name, math.prod(int(factor) for factor in decision), parts, max_innermost)


def _is_sample(parameter: SketchParameter, decision: Any) -> bool:
    """Whether a decision is factors for a tile, a position among the choices, or a loop's position."""
    if isinstance(parameter, Tile):
        return isinstance(decision, list) and all(type(factor) is int for factor in decision)
    assert isinstance(parameter, Categorical)
    positions = (
        _COMPUTE_LOCATIONS if parameter.choices == _COMPUTE_LOCATIONS else range(len(parameter.choices))
    )
    return type(decision) is int and decision in positions


def _to_trace(parameter: SketchParameter, value: Decision) -> Any:
    """A decision as the trace wants it: factors, a position among the choices, or a loop's position."""
    if isinstance(parameter, Tile):
        return list(value)  # type: ignore[arg-type]
    assert isinstance(parameter, Categorical)
    assert isinstance(value, int)
    return value if parameter.choices == _COMPUTE_LOCATIONS else parameter.choices.index(value)


def _from_trace(parameter: SketchParameter, decision: Any) -> Decision:
    """The inverse of ``_to_trace``."""
    if isinstance(parameter, Tile):
        return tuple(int(factor) for factor in decision)
    assert isinstance(parameter, Categorical)
    return int(decision) if parameter.choices == _COMPUTE_LOCATIONS else parameter.choices[int(decision)]


Columns = dict[str, NDArray[np.int64]]

_CHUNK = 1 << 16  # draws at once; what they take stays in a few tens of megabytes
_MOST_CHUNKS = 2000


def draw_columns(sketch: Sketch, size: int, rng: np.random.Generator) -> tuple[int, Columns]:
    """Random decisions of a sketch that meet its constraints, by rejection; the same may come twice.

    Fewer than ``size`` come back where 130 million draws do not give as many.

    Args:
        sketch: The sketch.
        size: How many.
        rng: Source of randomness.

    Returns:
        How many came back and, for each parameter, in order, ``(n, parts)`` or ``(n,)`` values. A sketch that
        has nothing to decide has no column; its only config comes back as often as asked for.
    """
    kept: list[Columns] = []
    missing = size
    for _ in range(_MOST_CHUNKS):
        columns = {parameter.name: parameter.draw(_CHUNK, rng) for parameter in sketch.parameters}
        rows = np.flatnonzero(_meets_all(sketch, columns))[:missing]
        kept.append({name: values[rows] for name, values in columns.items()})
        missing -= len(rows)
        if not missing:
            break
    return size - missing, {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}


def _meets_all(sketch: Sketch, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Whether each row meets the sketch's constraints, as ``Sketch.worth_lowering`` tells of one config."""
    meets = np.ones(_CHUNK, dtype=bool)
    for bound in sketch.constraints:
        meets &= _fits(bound, columns) if isinstance(bound, SharedMemoryBound) else _is_within(bound, columns)
    return meets


def _is_within(bound: AxisExtent, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    extent = np.prod([columns[name][:, part] for name, part in bound.factors], axis=0)
    return np.asarray((bound.low <= extent) & (extent <= bound.high))


def _fits(bound: SharedMemoryBound, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    needed = sum(
        size * np.prod([side_extents(side, columns) for side in sides], axis=0) for size, sides in bound.boxes
    )
    return np.asarray(needed * bound.copies <= bound.limit_bytes)
