"""What a block does in one step of its reduction: it stages a box of each operand, then multiplies them.

A launch adds both operands up; here they are apart, as a kernel waits for the worse of its two copies. The
anchor is seen as a matrix product: rows are loops that index the first operand alone, columns the second
alone, depth is what is accumulated over. Loops that index both, such as a batch, are neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule.launches._tiled_launch import (
    FRAGMENT_SIDE,
    TRANSPOSED_SKETCH,
    WARP_THREADS,
    count_copies,
    is_tensorised,
    is_tiled,
)
from costmodel.kernels.metaschedule.launches._tiles import (
    LOOP_NESTS,
    LoopNest,
    box_elements,
    count_at,
    count_within,
    loop_tiles,
    multiply,
    staging_of,
)
from costmodel.records._candidate import SKETCH, ConfigBatch
from costmodel.records._workload import DTYPE_BYTES

# Rows, columns and depth.
Sides = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class BlockStep:
    """One step of each config; all ``(n,)``.

    Attributes:
        staged_bytes: Of each of both operands, what is staged.
        lanes: Elements of one vector access, of each operand's copy and of that of the results.
        copies: Copies of what is staged: those of a pipeline, or 1.
        on_tensor_cores: 1.0 where fragments are multiplied.
        by_columns: 1.0 where the second operand is staged by columns, whose neighbours are a row apart in
            device memory.
        block: Sides of what a block multiplies.
        inner: Sides of what a thread, on Tensor Cores a warp, multiplies in one go; virtual threads are
            left out.
    """

    staged_bytes: tuple[FloatArray, FloatArray]
    lanes: Sides
    copies: FloatArray
    on_tensor_cores: FloatArray
    by_columns: FloatArray
    block: Sides
    inner: Sides


def step_of(batch: ConfigBatch) -> BlockStep | None:
    """The step of each config of an operator; None where the decisions tell none.

    Example:
        >>> from costmodel.records import Config, Workload
        >>> tiles = {"tile.C.i": (2, 1, 16, 2, 1), "tile.C.j": (4, 1, 8, 1, 2), "tile.C.k": (8, 1, 8)}
        >>> fetches = {"cooperative_fetch.A_shared": 4, "cooperative_fetch.B_shared": 1}
        >>> config = Config({"sketch": 0, **tiles, **fetches, "unroll_explicit.root": 64})
        >>> step = step_of(ConfigBatch.from_configs(Workload.parse("matmul-m64-n64-k64"), [config]))
        >>> step.staged_bytes
        (array([1024.]), array([512.]))
    """
    if batch.workload.is_foreign or not batch.size:
        return None
    if is_tiled(batch):
        return _tiled_step(batch)
    return _tensor_step(batch) if is_tensorised(batch) else None


def _tiled_step(batch: ConfigBatch) -> BlockStep:
    workload, size = batch.workload, DTYPE_BYTES[batch.workload.dtype]
    nest = LOOP_NESTS[workload.operator.anchor]
    spatial, reduced = loop_tiles(batch)
    extents = {loop: count_within(tile, 1) for loop, tile in zip(nest.loops, spatial + reduced, strict=True)}
    inner = {loop: count_within(tile, 3) for loop, tile in zip(nest.spatial, spatial, strict=True)}
    inner |= {loop: tile[:, 2] for loop, tile in zip(nest.reduced, reduced, strict=True)}
    first, second = (box_elements(each, extents, workload.dims.get("s", 1)) for each in nest.operands)
    threads, one = count_at(spatial, 2), np.ones(batch.size)
    lanes = [
        staging_of(box, threads, width.astype(np.float64)).lanes
        for box, width in zip((first, second), batch.named("cooperative_fetch."), strict=True)
    ]
    return BlockStep(
        staged_bytes=(size * first, size * second),
        lanes=(lanes[0], lanes[1], one),
        copies=count_copies(batch),
        on_tensor_cores=0.0 * one,
        by_columns=0.0 * one,
        block=_sides(nest, extents, batch.size),
        inner=_sides(nest, inner, batch.size),
    )


def _tensor_step(batch: ConfigBatch) -> BlockStep:
    size, one = DTYPE_BYTES[batch.workload.dtype], np.ones(batch.size)
    rows, columns, depth = (tile.astype(np.float64) for tile in batch.named("tensor_tile."))
    of_results, *of_operands = (width.astype(np.float64) for width in batch.named("cooperative_fetch."))
    threads = WARP_THREADS * rows[:, 2] * columns[:, 2]
    m, n, k = (
        FRAGMENT_SIDE * count_within(rows, 2),
        FRAGMENT_SIDE * count_within(columns, 2),
        count_within(depth, 1),
    )
    k = FRAGMENT_SIDE * k
    first, second, results = (
        staging_of(box, threads, width).lanes
        for box, width in zip((m * k, n * k, m * n), (*of_operands, of_results), strict=True)
    )
    return BlockStep(
        staged_bytes=(size * m * k, size * n * k),
        lanes=(first, second, results),
        copies=one,
        on_tensor_cores=one,
        by_columns=np.asarray(batch.decisions[SKETCH] == TRANSPOSED_SKETCH, dtype=np.float64),
        block=(m, n, k),
        inner=(
            FRAGMENT_SIDE * count_within(rows, 3),
            FRAGMENT_SIDE * count_within(columns, 3),
            FRAGMENT_SIDE * depth[:, 2],
        ),
    )


def _sides(nest: LoopNest, extents: Mapping[str, FloatArray], size: int) -> Sides:
    first, second = nest.operands
    rows = [loop for loop in nest.spatial if loop in first and loop not in second]
    columns = [loop for loop in nest.spatial if loop in second and loop not in first]
    # A side of no loops is 1.
    one = np.ones(size)
    height, width, depth = (
        multiply([one, *(extents[loop] for loop in loops)]) for loops in (rows, columns, nest.reduced)
    )
    return height, width, depth
