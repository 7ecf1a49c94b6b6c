"""What the tiles of configs mean: boxes that a block stages, loads of a thread, and costs of an epilogue.

Tiles are ``(n, parts)``, one row a config, with factors as ``_config`` describes them. A factor of the
innermost levels or of the virtual threads is work that one thread keeps in registers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records._candidate import ConfigBatch
from costmodel.records._program_facts import ProgramFacts
from costmodel.records._workload import Workload

_SPATIAL_PARTS = (5, 4)


@dataclass(frozen=True)
class LoopNest:
    """Loops and operands of an anchor, spelled as above.

    Attributes:
        spatial: Loops over results.
        reduced: Loops that one result accumulates over.
        operands: Axes of each operand.
    """

    spatial: str
    reduced: str
    operands: tuple[str, ...]

    @property
    def loops(self) -> str:
        """All loops, in order."""
        return self.spatial + self.reduced

    def operand_loops(self) -> tuple[tuple[int, ...], ...]:
        """For each operand, the positions of the spatial loops that index it."""
        return tuple(
            tuple(i for i, loop in enumerate(self.spatial) if loop in operand) for operand in self.operands
        )


LOOP_NESTS: Mapping[str, LoopNest] = {
    "matmul": LoopNest("ij", "k", ("i k", "k j")),
    "batch_matmul": LoopNest("bij", "k", ("b i k", "b k j")),
    "conv2d": LoopNest("noyx", "cpq", ("n c yp xq", "o c p q")),
    "conv2d_nhwc": LoopNest("nyxo", "pqc", ("n yp xq c", "p q c o")),
    "depthwise_conv2d": LoopNest("ncyx", "pq", ("n c yp xq", "c p q")),
    "depthwise_conv2d_nhwc": LoopNest("nyxc", "pq", ("n yp xq c", "p q c")),
}


def multiply(factors: Sequence[FloatArray]) -> FloatArray:
    """Product of ``(n,)`` arrays; there must be one."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def count_at(tiles: Sequence[FloatArray], part: int) -> FloatArray:
    """``(n,)`` product over loops of their factors at one level."""
    return multiply([tile[:, part] for tile in tiles])


def count_within(tile: FloatArray, first: int) -> FloatArray:
    """``(n,)`` iterations of a loop from this level inwards."""
    return multiply([tile[:, part] for part in range(first, tile.shape[1])])


def box_elements(operand: str, extents: Mapping[str, FloatArray], stride: int) -> FloatArray:
    """``(n,)`` elements of an operand that loops of these extents touch, as the dense box that is staged.

    A side is what an affine index covers while its loops run: ``stride * (first - 1) + second`` for a window.
    """
    return multiply(
        [
            stride * (extents[axis[0]] - 1) + extents[axis[1]] if len(axis) == 2 else extents[axis]
            for axis in operand.split()
        ]
    )


def loop_tiles(batch: ConfigBatch) -> tuple[list[FloatArray], list[FloatArray]]:
    """Factors of the spatial and of the reduction loops that ``batch`` tiles; none for other sketches."""
    tiles = [tile.astype(np.float64) for tile in batch.named("tile.") if tile.ndim == 2]
    return (
        [tile for tile in tiles if tile.shape[1] in _SPATIAL_PARTS],
        [tile for tile in tiles if tile.shape[1] not in _SPATIAL_PARTS],
    )


# Rows and columns of the matrices that a Tensor Core instruction multiplies.
_FRAGMENT = 16


def unfold_tensor_tile(tensor_tile: FloatArray) -> FloatArray:
    """Tiles of a tensorised loop as tiles of a loop without: a warp takes the place of a thread.

    Their factors count fragments: [blockIdx.y, blockIdx.x, warps, inner, innermost], three for a reduction.
    """
    factors = list(tensor_tile.T)
    factors[-1] = _FRAGMENT * factors[-1]
    if len(factors) == 5:
        factors[:2] = [factors[0] * factors[1], np.ones_like(factors[0])]
    return np.column_stack(factors)


def operand_loops(workload: Workload) -> Sequence[Sequence[int]]:
    """For each operand of the anchor, the positions of the spatial loops that index it; none if not known."""
    if workload.is_program:
        return ProgramFacts.of(workload.dims).operand_loops()
    nest = LOOP_NESTS.get(workload.operator.anchor)
    return nest.operand_loops() if nest else ()


def operand_loads(operands: Sequence[Sequence[int]], spatial: Sequence[FloatArray]) -> FloatArray | float:
    """``(n,)`` operands that a thread loads from shared memory for one multiply-add; NaN where not known.

    The accumulators of a thread form a box with one side a loop, and an operand is loaded once for each
    position along its own loops: a 4 x 8 tile of a matmul loads 4 + 8 values for 32 multiply-adds, 0.375
    each. That windows of a convolution overlap is left out.
    """
    if not operands or len(spatial) <= max(map(max, operands)):
        return np.nan
    sides = [thread_part(tile) for tile in spatial]
    loaded = [multiply([sides[loop] for loop in loops]) for loops in operands]
    return sum(loaded[1:], start=loaded[0]) / multiply(sides)


def thread_part(tile: FloatArray) -> FloatArray:
    """``(n,)`` positions of a spatial loop that one thread computes, virtual threads included."""
    return tile[:, 1] * count_within(tile, 3)


def count_contiguous(tiles: Sequence[FloatArray]) -> FloatArray:
    """``(n,)`` neighbouring addresses that a block stages at once, of a buffer whose last axes are the loops.

    The last loop's part within a block, times that of the loop before where the last is covered in full, and
    so on: what decides whether the loads of a warp coalesce.
    """
    run = np.ones(len(tiles[0]))
    whole = np.ones(len(tiles[0]), dtype=bool)
    for tile in reversed(tiles):
        run = np.where(whole, run * count_within(tile, 1), run)
        whole &= tile[:, 0] <= 1
    return run


@dataclass(frozen=True)
class Staging:
    """One cooperative copy; both ``(n,)``.

    Attributes:
        elements: Elements that are copied, those of masked threads included.
        lanes: Elements of one vector access.
    """

    elements: FloatArray
    lanes: FloatArray


def staging_of(box: FloatArray, threads: FloatArray, width: FloatArray) -> Staging:
    """The copy of a box by these threads with vectors of this width.

    Vectors are given up where they do not divide the box, and the last round of a copy is masked
    (``RewriteCooperativeFetch`` of TVM, src/s_tir/meta_schedule/postproc/rewrite_cooperative_fetch.cc).
    """
    lanes = np.where(box % width == 0, width, 1.0)
    round_elements = threads * lanes
    return Staging(np.ceil(box / round_elements) * round_elements, lanes)


# (Operations, uses of the value, loads of an own operand) of each step, as ``_workload_ir`` writes it. A step
# that uses its value twice computes twice what is inlined into it: nothing is shared before code generation.
_STEPS = {
    "bias": (1, 1, 1),
    "add": (1, 1, 1),
    "mul": (1, 1, 1),
    "relu": (1, 1, 0),
    "relu6": (2, 1, 0),
    "gelu": (5, 2, 0),
    "silu": (4, 2, 0),
}


def epilogue_costs(workload: Workload) -> tuple[int, int, int]:
    """Operations, elements loaded from device memory, and uses of the anchor's result, for each result.

    Example:
        >>> epilogue_costs(Workload.parse("matmul_bias_gelu-m4-n4-k4"))
        (7, 2, 2)
    """
    flops, loads, uses = 0, 0, 1
    for step in workload.operator.epilogue:
        own_flops, repeats, own_loads = _STEPS[step]
        flops, loads, uses = repeats * flops + own_flops, repeats * loads + own_loads, repeats * uses
    return flops, loads, uses
