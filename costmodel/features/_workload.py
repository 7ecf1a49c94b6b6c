"""Features of a workload: how much it computes and moves, and in what shape."""

import math

from costmodel.features._table import Column
from costmodel.records import OPERATORS, Workload

_KINDS = tuple(OPERATORS)

# The dimensions that a result accumulates over; their product is the length of a reduction.
_REDUCED_DIMS: dict[str, tuple[str, ...]] = {
    "matmul": ("k",),
    "matmul_bias_gelu": ("k",),
    "batch_matmul": ("k",),
    "conv2d": ("c", "k", "k"),
    "depthwise_conv2d": ("k", "k"),
    "softmax": ("n",),
    "layer_norm": ("n",),
}

WORKLOAD_COLUMNS = (
    Column("log2_flops", "log2(flop)", "workload"),
    Column("log2_min_bytes", "log2(byte)", "workload"),
    Column("log2_intensity", "log2(flop/byte)", "workload"),
    Column("log2_reduction", "log2(1)", "workload"),
    Column("log2_results", "log2(1)", "workload"),
    *(Column(f"is_{kind}", "1", "workload") for kind in _KINDS),
)


def workload_values(workload: Workload) -> list[float]:
    """One value for each of ``WORKLOAD_COLUMNS``.

    ``reduction`` is the length that one result accumulates over; ``results`` is flops / (2 reduction), the
    number of reductions that can run side by side.
    """
    reduction = math.prod(workload.dims[dim] for dim in _REDUCED_DIMS[workload.kind])
    flops, min_bytes = workload.flops, workload.min_bytes
    sizes = (flops, min_bytes, flops / min_bytes, reduction, flops / (2 * reduction))
    return [*(math.log2(size) for size in sizes), *(float(workload.kind == kind) for kind in _KINDS)]
