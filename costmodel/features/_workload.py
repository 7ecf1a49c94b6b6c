"""Features of a workload: how much it computes and moves, and in what shape."""

import math

from costmodel.columns import Column
from costmodel.features._epilogue import epilogue_costs
from costmodel.records import DTYPE_BYTES, Workload

# Kinds share a column with their family: layouts of one computation, epilogues of one anchor. Only a matrix
# product with an epilogue has a column of its own.
_FAMILIES = ("matmul", "fused_matmul", "batch_matmul", "conv2d", "depthwise_conv2d", "softmax", "layer_norm")

WORKLOAD_COLUMNS = (
    Column("log2_flops", "log2(flop)", "workload"),
    Column("log2_min_bytes", "log2(byte)", "workload"),
    Column("log2_intensity", "log2(flop/byte)", "workload"),
    Column("log2_reduction", "log2(1)", "workload"),
    Column("log2_results", "log2(1)", "workload"),
    Column("log2_instances", "log2(1)", "workload"),
    Column("log2_rows", "log2(1)", "workload"),
    Column("log2_columns", "log2(1)", "workload"),
    Column("log2_window", "log2(1)", "workload"),
    Column("log2_stride", "log2(1)", "workload"),
    Column("channels_last", "1", "workload"),
    Column("element_bytes", "byte", "workload"),
    Column("epilogue_flops", "flop", "workload"),
    Column("epilogue_loads", "1", "workload"),
    *(Column(f"is_{family}", "1", "workload") for family in _FAMILIES),
)


def workload_values(workload: Workload) -> list[float]:
    """One value for each of ``WORKLOAD_COLUMNS``.

    ``reduction`` is the length that one result accumulates over; ``results`` is flops / (2 reduction), the
    number of reductions that can run side by side. ``instances``, ``rows`` and ``columns`` are the sides of
    the matrix products that the anchor is: images, pixels and channels of a convolution. ``window`` is the
    side of its window; ``epilogue_*`` count per result. Of a foreign kernel all are NaN.
    """
    if workload.is_foreign:
        return [math.nan] * len(WORKLOAD_COLUMNS)
    reduction = workload.operator.reduction(workload.dims)
    flops, min_bytes = workload.flops, workload.min_bytes
    sizes = (flops, min_bytes, flops / min_bytes, reduction, flops / (2 * reduction), *_sides(workload))
    epilogue_flops, epilogue_loads, _ = epilogue_costs(workload)
    return [
        *(math.log2(size) for size in sizes),
        float(workload.operator.anchor.endswith("_nhwc")),
        float(DTYPE_BYTES[workload.dtype]),
        float(epilogue_flops),
        float(epilogue_loads),
        *(float(_family(workload) == name) for name in _FAMILIES),
    ]


def _sides(workload: Workload) -> tuple[int, int, int, int, int]:
    """Instances, rows, columns, window and stride; 1 where there is none."""
    dims = workload.dims
    if "s" in dims:
        channels = dims.get("o", dims["c"])
        pixels = math.prod(workload.operator.output(dims)) // (dims["n"] * channels)
        return dims["n"], pixels, channels, dims["k"], dims["s"]
    return dims.get("b", 1), dims["m"], dims["n"], 1, 1


def _family(workload: Workload) -> str:
    """The one of ``_FAMILIES`` that the workload belongs to."""
    family = workload.operator.family
    return f"fused_{family}" if family == "matmul" and workload.operator.epilogue else family
