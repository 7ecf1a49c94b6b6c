"""The launch of a tensorised loop nest, from its decisions alone.

MetaSchedule sees every anchor as a matrix product in fragments of 16 x 16 x 16
(``MultiLevelTilingTensorCore`` of TVM). The loops m and n are tiled as [blockIdx.y, blockIdx.x, warp, inner,
innermost], k as [step, middle, inner]. A block stages two boxes a step, its warps load fragments of them, and
the results go through shared memory once more, where the epilogue is applied. Sizes that are no multiples
of 16 are filled up with zeros.
"""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule.launches._epilogue import epilogue_costs
from costmodel.kernels.metaschedule.launches._loops import within
from costmodel.kernels.metaschedule.launches._staging import staging_of
from costmodel.kernels.metaschedule.launches._tiled_launch import is_padded, unroll_steps
from costmodel.records._candidate import SKETCH, ConfigBatch
from costmodel.records._workload import DTYPE_BYTES, Workload

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
    block_results = FRAGMENT_SIDE**2 * within(rows, 2) * within(columns, 2)
    blocks = _products(workload) * rows[:, 0] * rows[:, 1] * columns[:, 0] * columns[:, 1]
    steps = depth[:, 0]
    warps = rows[:, 2] * columns[:, 2]
    threads = WARP_THREADS * warps
    block_depth = FRAGMENT_SIDE * within(depth, 1)
    stored, first, second = (
        staging_of(box, threads, width)
        for box, width in zip(
            (
                block_results,
                FRAGMENT_SIDE * within(rows, 2) * block_depth,
                FRAGMENT_SIDE * within(columns, 2) * block_depth,
            ),
            widths,
            strict=True,
        )
    )
    copied = blocks * steps * (first.elements + second.elements)
    written = blocks * stored.elements
    row_fragments, column_fragments, depth_fragments = within(rows, 3), within(columns, 3), depth[:, 2]
    operand_fragments = (row_fragments + column_fragments) * depth_fragments
    loaded_fragments = blocks * warps * steps * depth[:, 1] * operand_fragments
    epilogue_flops, epilogue_loads, uses = epilogue_costs(workload)
    first_pads, second_pads = _pads_to_fragments(batch)
    padding_flops = first.elements * (first_pads or is_padded(workload)) + second.elements * second_pads
    macs = blocks * block_results * FRAGMENT_SIDE * within(depth, 0)
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
        FRAGMENT_SIDE * within(rows, 2),
        FRAGMENT_SIDE * within(columns, 2),
        FRAGMENT_SIDE * within(depth, 1),
    )
    transposed = batch.decisions[SKETCH] == TRANSPOSED_SKETCH
    first = height * _aligned(length)
    second = np.where(transposed, width * _aligned(length), length * _aligned(width))
    results = FRAGMENT_SIDE * rows[:, 2] * width
    return np.minimum(first, second) + np.maximum(np.maximum(first, second), results)


def _aligned(elements: FloatArray) -> FloatArray:
    """Length of a padded row: the next one that is 8 more than a multiple of 32, against bank conflicts."""
    return np.ceil((elements - 8) / 32) * 32 + 8
