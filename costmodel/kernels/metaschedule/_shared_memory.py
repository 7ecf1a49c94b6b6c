"""Shared memory that a sketch's tiles need, by arithmetic: most random configs ask for too much of it.

A block stages the part of each operand that it reads between two steps of the outermost reduction loop, as
one dense box. A side of the box is what an affine index covers while its loops run through their tiles:
``1 + sum(coefficient * (tile - 1))``.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from costmodel.records._candidate import Decision

FRAGMENT_SIDE = 16  # of all fragments that MetaSchedule uses: m, n and k of one warp's matrix product
# Annotation of a pipelined loop: a stage for each statement in it.
PIPELINE_STAGES = "software_pipeline_stage"
# MetaSchedule pads the rows of tensorised operands against bank conflicts, by at least this many elements.
_FRAGMENT_PADDING = 8


@dataclass(frozen=True)
class Side:
    """Extent of a box: ``constant + sum(coefficient * ceil(tile / divisor))``.

    Attributes:
        constant: The constant.
        terms: (name of a tile parameter, its first factor within one block, coefficient, divisor).
    """

    constant: int
    terms: tuple[tuple[str, int, int, int], ...]

    def extent(self, decisions: Mapping[str, Decision]) -> int:
        """Elements along this side."""
        return self.constant + sum(
            coefficient * -(-_within_block(decisions[name], first) // divisor)
            for name, first, coefficient, divisor in self.terms
        )


@dataclass(frozen=True)
class SharedMemoryBound:
    """The boxes that a block stages together, and the most bytes that they may take.

    Attributes:
        boxes: (bytes of an element, sides) of each; never more than what the kernel allocates.
        copies: Copies of each that a software pipeline keeps.
        limit_bytes: Shared memory that a block can have.
    """

    boxes: tuple[tuple[int, tuple[Side, ...]], ...]
    copies: int
    limit_bytes: int

    def holds(self, decisions: Mapping[str, Decision]) -> bool:
        """Whether the boxes that these decisions give fit."""
        needed = sum(size * math.prod(side.extent(decisions) for side in sides) for size, sides in self.boxes)
        return needed * self.copies <= self.limit_bytes


def pipeline_copies(stages: Sequence[int]) -> int:
    """Copies of a buffer between the first and the last stage: one for each stage that may hold its own."""
    return max(stages) - min(stages) + 1


def shared_memory_bounds(
    original: Any, trace: Any, names: Collection[str], limit_bytes: int
) -> list[SharedMemoryBound]:
    """Bound on the shared memory of each kernel of a sketch that stages operands.

    Args:
        original: ``tvm.s_tir.Schedule`` of the unscheduled module.
        trace: The sketch's trace.
        names: Names of the sketch's parameters.
        limit_bytes: Shared memory that a block can have.
    """
    blocks = map(original.get, original.get_child_blocks(original.get_sblock("root")))
    staged = (_fragment_boxes(block, names) or _operand_boxes(original, block, names) for block in blocks)
    return [SharedMemoryBound(boxes, _copies(trace), limit_bytes) for boxes in staged if boxes]


def _copies(trace: Any) -> int:
    """Copies that the sketch's software pipeline keeps."""
    stages = [i.inputs[1] for i in trace.insts if i.kind.name == "Annotate" and i.attrs[0] == PIPELINE_STAGES]
    return max(map(pipeline_copies, stages), default=1)


def _fragment_boxes(block: Any, names: Collection[str]) -> tuple[tuple[int, tuple[Side, ...]], ...]:
    """Boxes of the two operands of a tensorised block; a factor of its spatial loops is blockIdx.x."""
    tiles = {loop: f"tensor_tile.{block.name_hint}.{loop}" for loop in "mnk"}
    if not set(names).issuperset(tiles.values()):
        return ()
    rows, columns = (Side(0, ((tiles[loop], 2, FRAGMENT_SIDE, 1),)) for loop in "mn")
    depth = Side(_FRAGMENT_PADDING, ((tiles["k"], 1, FRAGMENT_SIDE, 1),))
    sizes = [bytes_of(region.source.dtype) for region in block.reads]
    return tuple((size, (side, depth)) for size, side in zip(sizes, (rows, columns), strict=True))


def _operand_boxes(
    original: Any, block: Any, names: Collection[str]
) -> tuple[tuple[int, tuple[Side, ...]], ...]:
    """Boxes of the operands that are staged for a block whose loops are all tiled."""
    loops = map(original.get, original.get_loops(original.get_sblock(block.name_hint)))
    tiles = [f"tile.{block.name_hint}.{loop.loop_var.name}" for loop in loops]
    if not set(names).issuperset(tiles):
        return ()
    variables = [axis.var for axis in block.iter_vars]
    return tuple(
        (
            bytes_of(region.source.dtype),
            tuple(side_of(index.min, variables, tiles) for index in region.region),
        )
        for region in block.reads
        if f"cooperative_fetch.{region.source.name}_shared" in names
    )


def side_of(index: Any, variables: Sequence[Any], tiles: Sequence[str]) -> Side:
    """Side of a box along an index; 1 where the index is no sum of variables, or of quotients of them.

    A quotient, such as the group of a channel in a grouped convolution, takes one more value where a tile
    begins within a divisor and ends in the next; that is left out.
    """
    found = _summands(index, 1)
    terms = tuple(
        (tile, 1, abs(coefficient), divisor)
        for tile, variable in zip(tiles, variables, strict=False)
        for summand, coefficient, divisor in found
        if summand.same_as(variable)
    )
    return Side(1 - sum(coefficient for _, _, coefficient, _ in terms), terms)


def _summands(index: Any, factor: int) -> list[tuple[Any, int, int]]:
    """(variable, coefficient, divisor) of each summand of an index that is one; constants have no extent."""
    if isinstance(index, tvm.tirx.Var):
        return [(index, factor, 1)]
    if isinstance(index, tvm.tirx.Add | tvm.tirx.Sub):
        return _summands(index.a, factor) + _summands(index.b, factor)
    if isinstance(index, tvm.tirx.Mul) and isinstance(index.b, tvm.tirx.IntImm):
        return _summands(index.a, factor * int(index.b))
    if isinstance(index, tvm.tirx.FloorDiv) and isinstance(index.b, tvm.tirx.IntImm):
        return [(v, c, d * int(index.b)) for v, c, d in _summands(index.a, factor) if c == factor]
    return []


def side_extents(side: Side, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """``(n,)`` elements along a side, of decisions as columns."""
    terms = [
        coefficient * -(-np.prod(columns[name][:, first:], axis=1) // divisor)
        for name, first, coefficient, divisor in side.terms
    ]
    rows = len(next(iter(columns.values())))
    return np.asarray(np.sum([np.full(rows, side.constant), *terms], axis=0))


def _within_block(tile: Decision, first: int) -> int:
    """Iterations of a tiled loop that one block runs between two stagings."""
    assert isinstance(tile, tuple)
    return math.prod(tile[first:])


def bytes_of(element: Any) -> int:
    """Bytes of one element of this type."""
    return int(tvm.DataType(str(element)).bits) // 8
