"""What the tiles of configs mean for one thread: how often it loads operands, and how long its body is.

Tiles are ``(n, parts)``, one row a config, with factors as ``_config`` describes them. A factor of the
innermost levels or of the virtual threads is work that one thread keeps in registers.
"""

from collections.abc import Sequence

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule.launches._loops import LOOP_NESTS, product, within
from costmodel.records._program_facts import ProgramFacts
from costmodel.records._workload import Workload

# Rows and columns of the matrices that a Tensor Core instruction multiplies.
_FRAGMENT = 16


def unfolded(tensor_tile: FloatArray) -> FloatArray:
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
    loaded = [product([sides[loop] for loop in loops]) for loops in operands]
    return sum(loaded[1:], start=loaded[0]) / product(sides)


def thread_part(tile: FloatArray) -> FloatArray:
    """``(n,)`` positions of a spatial loop that one thread computes, virtual threads included."""
    return tile[:, 1] * within(tile, 3)


def contiguous(tiles: Sequence[FloatArray]) -> FloatArray:
    """``(n,)`` neighbouring addresses that a block stages at once, of a buffer whose last axes are the loops.

    The last loop's part within a block, times that of the loop before where the last is covered in full, and
    so on: what decides whether the loads of a warp coalesce.
    """
    run = np.ones(len(tiles[0]))
    whole = np.ones(len(tiles[0]), dtype=bool)
    for tile in reversed(tiles):
        run = np.where(whole, run * within(tile, 1), run)
        whole &= tile[:, 0] <= 1
    return run
