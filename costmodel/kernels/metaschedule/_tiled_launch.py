"""The launch of a multi-level tiled loop nest, and what a block does in a step, from its decisions alone.

Sketch SSSRRSRS of MetaSchedule (Shao et al., arXiv:2205.13603): a spatial loop is tiled as [grid, vthread,
thread, inner, innermost], a reduction as [step, middle, inner]. In each step a block stages the box of each
operand that it reads, and each thread multiplies what it needs of it into its accumulators.

A launch adds both operands up; in a ``BlockStep`` they are apart, as a kernel waits for the worse of its two
copies. The anchor is seen as a matrix product there: rows are loops that index the first operand alone,
columns the second alone, depth is what is accumulated over. Loops that index both, such as a batch, are
neither.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule._tiles import (
    LOOP_NESTS,
    LoopNest,
    box_elements,
    count_at,
    count_within,
    epilogue_costs,
    loop_tiles,
    multiply,
    staging_of,
)
from costmodel.records._candidate import SKETCH, ConfigBatch
from costmodel.records._workload import DTYPE_BYTES, Workload

# Copies of what is staged: sketch 0 has no pipeline, the two behind it keep 3 and 4 steps on the way
# (``MultiLevelTilingWithAsync`` of TVM, pipelines of 4 and 5 stages).
_PIPELINE_COPIES = np.array([1.0, 3.0, 4.0])


def is_tiled(batch: ConfigBatch) -> bool:
    """Whether the batch tiles each loop of its anchor as a GPU's sketch does."""
    nest = LOOP_NESTS.get(batch.workload.operator.anchor)
    spatial, reduced = loop_tiles(batch)
    return (
        nest is not None
        and len(spatial) == len(nest.spatial)
        and len(reduced) == len(nest.reduced)
        and all(tile.shape[1] == 5 for tile in spatial)
        and all(tile.shape[1] == 3 for tile in reduced)
        and len(batch.named("cooperative_fetch.")) == len(nest.operands)
    )


def tiled_launch(batch: ConfigBatch) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(n,)``; exact, counted as the lowered program is.

    What is staged counts once for each virtual thread, which repeat it in the program, and what masked
    threads copy counts in full.
    """
    workload, size = batch.workload, DTYPE_BYTES[batch.workload.dtype]
    nest = LOOP_NESTS[workload.operator.anchor]
    spatial, reduced = loop_tiles(batch)
    blocks, vthreads, threads = (count_at(spatial, part) for part in range(3))
    extents = {loop: count_within(tile, 1) for loop, tile in zip(nest.loops, spatial + reduced, strict=True)}
    stride = workload.dims.get("s", 1)
    boxes = [box_elements(operand, extents, stride) for operand in nest.operands]
    widths = [width.astype(np.float64) for width in batch.named("cooperative_fetch.")]
    stagings = [staging_of(box, threads, width) for box, width in zip(boxes, widths, strict=True)]
    repeats = blocks * vthreads * count_at(reduced, 0)
    copied = repeats * sum(staging.elements for staging in stagings)
    results, macs = result_counts(workload)
    epilogue_flops, epilogue_loads, _ = epilogue_costs(workload)
    padding_flops = repeats * stagings[0].elements if is_padded(workload) else 0.0
    shape = (batch.size,)
    return {
        "blocks": blocks,
        "threads_per_block": threads,
        "vthreads": vthreads,
        "shared_bytes": size * count_copies(batch) * sum(boxes),
        "local_bytes": size * vthreads * multiply([count_within(tile, 3) for tile in spatial]),
        "global_load_bytes": size * (copied + results * epilogue_loads),
        "global_store_bytes": np.full(shape, float(size * results)),
        "shared_load_bytes": np.full(shape, 2.0 * size * macs),
        "shared_store_bytes": size * copied,
        "flops": 2.0 * macs + results * epilogue_flops + padding_flops + np.zeros(shape),
        "tensor_flops": np.zeros(shape),
        "vector_bytes": size * np.maximum.reduce([staging.lanes for staging in stagings]),
        "unroll_steps": unroll_steps(batch),
    }


def result_counts(workload: Workload) -> tuple[int, int]:
    """Results of the anchor, and its multiply-adds."""
    operator = workload.operator
    results = math.prod(operator.output(workload.dims))
    return results, results * operator.reduction(workload.dims)


def is_padded(workload: Workload) -> bool:
    """Whether staging the first operand chooses between it and padding: one more operation an element."""
    return "s" in workload.dims and workload.dims["k"] > 1


def unroll_steps(batch: ConfigBatch) -> FloatArray:
    """``(n,)`` steps that the compiler may unroll; 0 where none is decided."""
    steps = batch.named("unroll_explicit.")
    return steps[0].astype(np.float64) if steps else np.zeros(batch.size)


def count_copies(batch: ConfigBatch) -> FloatArray:
    """``(n,)`` copies of what is staged that a block keeps."""
    sketch = batch.decisions.get(SKETCH, np.zeros(batch.size, dtype=np.int64))
    return np.asarray(_PIPELINE_COPIES[np.minimum(sketch, len(_PIPELINE_COPIES) - 1)])


FRAGMENT_SIDE = 16  # rows and columns of a fragment
WARP_THREADS = 32  # threads that hold a fragment together
# The first of the two tensorised sketches stages its second operand by columns, the other by rows of k.
TRANSPOSED_SKETCH = 3


def is_tensorised(batch: ConfigBatch) -> bool:
    """Whether the batch tiles a matrix product of fragments."""
    fetches = batch.named("cooperative_fetch.")
    return (
        [tile.shape[1:] for tile in batch.named("tensor_tile.")] == [(5,), (5,), (3,)]
        and len(fetches) == 3
        and SKETCH in batch.decisions
    )


def tensor_launch(batch: ConfigBatch) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(n,)``; counted as the lowered program is, a warp's fragments once.

    All but ``shared_bytes`` are exact. TVM merges shared buffers by their lifetimes: what is told is that of
    loops that are left, while full unrolling of the outermost reduction can keep more of them alive.
    """
    workload, size = batch.workload, DTYPE_BYTES[batch.workload.dtype]
    rows, columns, depth = (tile.astype(np.float64) for tile in batch.named("tensor_tile."))
    widths = [width.astype(np.float64) for width in batch.named("cooperative_fetch.")]
    block_results = FRAGMENT_SIDE**2 * count_within(rows, 2) * count_within(columns, 2)
    blocks = _products(workload) * rows[:, 0] * rows[:, 1] * columns[:, 0] * columns[:, 1]
    steps = depth[:, 0]
    warps = rows[:, 2] * columns[:, 2]
    threads = WARP_THREADS * warps
    block_depth = FRAGMENT_SIDE * count_within(depth, 1)
    stored, first, second = (
        staging_of(box, threads, width)
        for box, width in zip(
            (
                block_results,
                FRAGMENT_SIDE * count_within(rows, 2) * block_depth,
                FRAGMENT_SIDE * count_within(columns, 2) * block_depth,
            ),
            widths,
            strict=True,
        )
    )
    copied = blocks * steps * (first.elements + second.elements)
    written = blocks * stored.elements
    row_fragments, column_fragments, depth_fragments = (
        count_within(rows, 3),
        count_within(columns, 3),
        depth[:, 2],
    )
    operand_fragments = (row_fragments + column_fragments) * depth_fragments
    loaded_fragments = blocks * warps * steps * depth[:, 1] * operand_fragments
    epilogue_flops, epilogue_loads, uses = epilogue_costs(workload)
    first_pads, second_pads = _pads_to_fragments(batch)
    padding_flops = first.elements * (first_pads or is_padded(workload)) + second.elements * second_pads
    macs = blocks * block_results * FRAGMENT_SIDE * count_within(depth, 0)
    lanes = np.maximum.reduce([stored.lanes, first.lanes, second.lanes])
    fragment_bytes = size * FRAGMENT_SIDE**2
    return {
        "blocks": blocks,
        "threads_per_block": threads,
        "vthreads": np.ones(batch.size),
        "shared_bytes": size * _shared_elements(batch, rows, columns, depth),
        "local_bytes": fragment_bytes / WARP_THREADS * (row_fragments * column_fragments + operand_fragments),
        "global_load_bytes": size * (copied + written * epilogue_loads),
        "global_store_bytes": size * written,
        "shared_load_bytes": fragment_bytes * loaded_fragments + size * written * uses,
        "shared_store_bytes": size * (copied + written),
        "flops": 2.0 * macs + written * epilogue_flops + blocks * steps * padding_flops,
        "tensor_flops": 2.0 * macs,
        "vector_bytes": size * lanes,
        "unroll_steps": unroll_steps(batch),
    }


def _products(workload: Workload) -> int:
    """How many matrix products a workload computes."""
    return workload.dims["b"] if workload.operator.anchor == "batch_matmul" else 1


def _pads_to_fragments(batch: ConfigBatch) -> tuple[bool, bool]:
    """Whether each operand is filled up with zeros to whole fragments, an element of which costs a flop."""
    _, first, second = (name for name in batch.decisions if name.startswith("cooperative_fetch."))
    return "_reindex_pad_" in first, "_reindex_pad_" in second


def _shared_elements(
    batch: ConfigBatch, rows: FloatArray, columns: FloatArray, depth: FloatArray
) -> FloatArray:
    """Elements of shared memory: both staged operands, and the results of one row of fragments a warp.

    The results come last and take the place of the larger operand.
    """
    height, width, length = (
        FRAGMENT_SIDE * count_within(rows, 2),
        FRAGMENT_SIDE * count_within(columns, 2),
        FRAGMENT_SIDE * count_within(depth, 1),
    )
    transposed = batch.decisions[SKETCH] == TRANSPOSED_SKETCH
    first = height * _aligned(length)
    second = np.where(transposed, width * _aligned(length), length * _aligned(width))
    results = FRAGMENT_SIDE * rows[:, 2] * width
    return np.minimum(first, second) + np.maximum(np.maximum(first, second), results)


def _aligned(elements: FloatArray) -> FloatArray:
    """Length of a padded row: the next one that is 8 more than a multiple of 32, against bank conflicts."""
    return np.ceil((elements - 8) / 32) * 32 + 8


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
