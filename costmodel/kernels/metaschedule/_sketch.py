"""A sketch of a MetaSchedule design space: a trace whose sampling instructions are named parameters."""

import json
import math
import sys
from collections import Counter
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
from costmodel.records._candidate import Decision

Factors = tuple[tuple[str, int], ...]
# A tensorised block is a matrix product of fragments, whatever it computes: these are its innermost loops.
_FRAGMENT_LOOPS = ("m", "n", "k")


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


class SketchNames:
    """Reads a trace as a graph: which instruction made a variable, and which use it."""

    def __init__(self, schedule: Any, trace: Any, original: Any) -> None:
        """Index the instructions of ``trace``.

        Args:
            schedule: The schedule that the trace belongs to.
            trace: The trace.
            original: Schedule of the unscheduled module.
        """
        self._schedule = schedule
        self._original = original
        self._insts = list(trace.insts)
        self._maker = {out: (inst, i) for inst in self._insts for i, out in enumerate(inst.outputs)}

    def of(self, samples: Sequence[Any]) -> list[str]:
        """A unique name for each sampling instruction, such as ``tile.conv2d_nchw.ff``."""
        names, seen = [], Counter[str]()
        for inst in samples:
            name = self._tile_name(inst) if inst.kind.name == "SamplePerfectTile" else self._use_name(inst)
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        return names

    def tiled_axes(self, samples: Sequence[Any]) -> list[tuple[str, Factors]]:
        """Each axis bound to a fusion of tiled loops, with the (name, part) of each factor in its extent.

        An annotation of such a loop counts as an axis too.
        """
        names = dict(zip(samples, self.of(samples), strict=True))
        axes = []
        for inst in self._insts:
            if inst.kind.name in ("Bind", "Annotate"):
                factors = self._factors(inst.inputs[0], names)
                if factors:
                    axes.append((str(inst.attrs[0]), factors))
        return axes

    def _factors(self, loop: Any, names: dict[Any, str]) -> Factors | None:
        """Tile factors whose product is the loop's extent; None where it has others."""
        inst, position = self._maker[loop]
        if inst.kind.name == "Fuse":
            parts = [self._factors(source, names) for source in inst.inputs]
            return None if None in parts else tuple(f for part in parts if part for f in part)
        if inst.kind.name == "Split":
            sample, part = self._maker.get(inst.inputs[1 + position], (None, 0))
            if sample is not None and sample.kind.name == "SamplePerfectTile":
                return ((names[sample], part),)
        return None

    def _tile_name(self, inst: Any) -> str:
        """``tile.<block>.<loop>`` of the loop that is tiled, ``tensor_tile`` of one that counts fragments."""
        loops, position = self._maker[inst.inputs[0]]
        if loops.kind.name != "GetLoops":
            return "tile"
        found, _ = self._maker[loops.inputs[0]]
        if found.kind.name == "Blockize":
            loop = _FRAGMENT_LOOPS[position - len(loops.outputs)]
            return f"tensor_tile.{self._owner(found.inputs[0])}.{loop}"
        if found.kind.name != "GetSBlock":
            return f"tile.{self._block(loops.inputs[0])}.{position}"
        block = str(found.attrs[0])
        loop = self._original.get_loops(self._original.get_sblock(block))[position]
        return f"tile.{block}.{self._original.get(loop).loop_var.name}"

    def _use_name(self, inst: Any) -> str:
        """``<annotation>.<block>``, ``split.<block>`` or ``compute_at.<block>``, by the first use."""
        if inst.kind.name == "SampleComputeLocation":
            return f"compute_at.{self._block(inst.inputs[0])}"
        result = inst.outputs[0]
        use = next(i for i in self._insts if any(result.same_as(x) for x in _objects(i.inputs)))
        if use.kind.name == "Annotate":
            return f"{str(use.attrs[0]).removeprefix('meta_schedule.')}.{self._block(use.inputs[0])}"
        return f"split.{self._owner(use.inputs[0])}"

    def _owner(self, loop: Any) -> str:
        """The block whose loop this is, through fusions and splits."""
        inst, _ = self._maker[loop]
        return self._block(inst.inputs[0]) if inst.kind.name == "GetLoops" else self._owner(inst.inputs[0])

    def _block(self, block: Any) -> str:
        """Name of a block, also of one that a later instruction removed."""
        inst, _ = self._maker[block]
        if inst.kind.name == "GetSBlock":
            return str(inst.attrs[0])
        return str(self._schedule.get(block).name_hint)


def _objects(inputs: Any) -> list[Any]:
    """Inputs that are objects, not plain numbers or strings."""
    return [value for value in inputs if hasattr(value, "same_as")]
