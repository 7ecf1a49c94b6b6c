"""What the tiles of a config mean for one thread: how often it loads operands, and how long its body is.

Loops are tiled as ``_config`` describes. A factor of the innermost levels or of the virtual threads is work
that one thread keeps in registers.
"""

import math

Tile = tuple[int, ...]

# For each input of an anchor, the spatial loops that index it, by their order in the output. Each value of it
# that a thread loads serves all results that differ in the other loops only.
_OPERAND_LOOPS: dict[str, tuple[tuple[int, ...], ...]] = {
    "matmul": ((0,), (1,)),
    "batch_matmul": ((0, 1), (0, 2)),
    "conv2d": ((0, 2, 3), (1,)),
    "conv2d_nhwc": ((0, 1, 2), (3,)),
    "depthwise_conv2d": ((0, 1, 2, 3), (1,)),
    "depthwise_conv2d_nhwc": ((0, 1, 2, 3), (3,)),
}
# Rows and columns of the matrices that a Tensor Core instruction multiplies.
_FRAGMENT = 16


def unfolded(tensor_tile: Tile) -> Tile:
    """A tile of a tensorised loop as a tile of a loop without: a warp takes the place of a thread.

    Its factors count fragments: [blockIdx.y, blockIdx.x, warps, inner, innermost], three for a reduction.
    """
    if len(tensor_tile) == 3:
        return (*tensor_tile[:2], _FRAGMENT * tensor_tile[2])
    rows, columns, warps, inner, innermost = tensor_tile
    return rows * columns, 1, warps, inner, _FRAGMENT * innermost


def operand_loads(anchor: str, spatial: list[Tile]) -> float:
    """Operands that a thread loads from shared memory for one multiply-add; NaN where loops are not known.

    The accumulators of a thread form a box with one side a loop, and an operand is loaded once for each
    position along its own loops: a 4 x 8 tile of a matmul loads 4 + 8 values for 32 multiply-adds, 0.375
    each. That windows of a convolution overlap is left out.
    """
    operands = _OPERAND_LOOPS.get(anchor)
    if operands is None or len(spatial) <= max(max(loops) for loops in operands):
        return math.nan
    sides = [thread_part(tile) for tile in spatial]
    return sum(math.prod(sides[loop] for loop in loops) for loops in operands) / math.prod(sides)


def thread_part(tile: Tile) -> int:
    """Positions of a spatial loop that one thread computes: its virtual threads and the levels within."""
    return tile[1] * math.prod(tile[3:])


def contiguous(tiles: list[Tile]) -> int:
    """Neighbouring addresses that a block stages at once, for a buffer whose last axes are these loops.

    The last loop's part within a block, times that of the loop before where the last is covered in full, and
    so on: what decides whether the loads of a warp coalesce.
    """
    run = 1
    for tile in reversed(tiles):
        run *= math.prod(tile[1:])
        if tile[0] > 1:
            break
    return run
