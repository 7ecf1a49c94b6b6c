"""The launch of a multi-level tiled loop nest, from its decisions alone.

Sketch SSSRRSRS of MetaSchedule (Shao et al., arXiv:2205.13603): a spatial loop is tiled as [grid, vthread,
thread, inner, innermost], a reduction as [step, middle, inner]. In each step a block stages the box of each
operand that it reads, and each thread multiplies what it needs of it into its accumulators.
"""

import math

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule.launches._epilogue import epilogue_costs
from costmodel.kernels.metaschedule.launches._loops import (
    LOOP_NESTS,
    box_elements,
    level,
    loop_tiles,
    product,
    within,
)
from costmodel.kernels.metaschedule.launches._staging import staging_of
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
    blocks, vthreads, threads = (level(spatial, part) for part in range(3))
    extents = {loop: within(tile, 1) for loop, tile in zip(nest.loops, spatial + reduced, strict=True)}
    stride = workload.dims.get("s", 1)
    boxes = [box_elements(operand, extents, stride) for operand in nest.operands]
    widths = [width.astype(np.float64) for width in batch.named("cooperative_fetch.")]
    stagings = [staging_of(box, threads, width) for box, width in zip(boxes, widths, strict=True)]
    repeats = blocks * vthreads * level(reduced, 0)
    copied = repeats * sum(staging.elements for staging in stagings)
    results, macs = result_counts(workload)
    epilogue_flops, epilogue_loads, _ = epilogue_costs(workload)
    padding_flops = repeats * stagings[0].elements if is_padded(workload) else 0.0
    shape = (batch.size,)
    return {
        "blocks": blocks,
        "threads_per_block": threads,
        "vthreads": vthreads,
        "shared_bytes": size * pipeline_copies(batch) * sum(boxes),
        "local_bytes": size * vthreads * product([within(tile, 3) for tile in spatial]),
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


def pipeline_copies(batch: ConfigBatch) -> FloatArray:
    """``(n,)`` copies of what is staged that a block keeps."""
    sketch = batch.decisions.get(SKETCH, np.zeros(batch.size, dtype=np.int64))
    return np.asarray(_PIPELINE_COPIES[np.minimum(sketch, len(_PIPELINE_COPIES) - 1)])
