"""Features of a workload: how much it computes and moves, and in what shape."""

import math

from costmodel.features._table import Column
from costmodel.records import Workload

# Kinds share a column with their family: layouts of one computation, epilogues of one anchor. Only a matrix
# product with an epilogue has a column of its own.
_FAMILIES = ("matmul", "fused_matmul", "batch_matmul", "conv2d", "depthwise_conv2d", "softmax", "layer_norm")

WORKLOAD_COLUMNS = (
    Column("log2_flops", "log2(flop)", "workload"),
    Column("log2_min_bytes", "log2(byte)", "workload"),
    Column("log2_intensity", "log2(flop/byte)", "workload"),
    Column("log2_reduction", "log2(1)", "workload"),
    Column("log2_results", "log2(1)", "workload"),
    *(Column(f"is_{family}", "1", "workload") for family in _FAMILIES),
)


def workload_values(workload: Workload) -> list[float]:
    """One value for each of ``WORKLOAD_COLUMNS``.

    ``reduction`` is the length that one result accumulates over; ``results`` is flops / (2 reduction), the
    number of reductions that can run side by side. Of a foreign kernel all are NaN.
    """
    if workload.is_foreign:
        return [math.nan] * len(WORKLOAD_COLUMNS)
    reduction = workload.operator.reduction(workload.dims)
    flops, min_bytes = workload.flops, workload.min_bytes
    sizes = (flops, min_bytes, flops / min_bytes, reduction, flops / (2 * reduction))
    return [*(math.log2(size) for size in sizes), *(float(_family(workload) == name) for name in _FAMILIES)]


def _family(workload: Workload) -> str:
    """The one of ``_FAMILIES`` that the workload belongs to."""
    family = workload.operator.family
    return f"fused_{family}" if family == "matmul" and workload.operator.epilogue else family
