"""Features of a workload: how much it computes and moves, and in what shape."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from costmodel.arrays import FloatArray
from costmodel.features._feature import Feature, columns_of, values_of
from costmodel.kernels.metaschedule._tiles import epilogue_costs
from costmodel.records._program_facts import FAMILIES, ProgramFacts
from costmodel.records._workload import DTYPE_BYTES, Workload


@dataclass(frozen=True)
class WorkloadFacts:
    """Facts that the features of a workload are computed from.

    Attributes:
        flops: Operations.
        min_bytes: Fewest bytes through device memory.
        reduction: Length that one result accumulates over.
        instances: Matrix products that the anchor is: images of a convolution.
        rows: Rows of each, pixels of a convolution.
        columns: Columns of each, channels of a convolution.
        window: Side of a convolution's window; 1 where there is none.
        stride: Its stride.
        channels_last: Whether channels are the last axis.
        element_bytes: Bytes of an input element.
        epilogue_flops: Operations of the epilogue for one result.
        epilogue_loads: Elements that it loads for one result.
        family: The one of ``FAMILIES`` that the workload belongs to; empty for none. Kinds share a column
            with their family: layouts of one computation, epilogues of one anchor. Only a matrix product with
            an epilogue has a column of its own.
    """

    flops: float
    min_bytes: float
    reduction: int
    instances: int
    rows: int
    columns: int
    window: int
    stride: int
    channels_last: bool
    element_bytes: int
    epilogue_flops: int
    epilogue_loads: int
    family: str

    @classmethod
    def of(cls, workload: Workload) -> "WorkloadFacts":
        """The facts of an operator, or of a tensor program."""
        if workload.is_program:
            return cls._of_program(ProgramFacts.of(workload.dims))
        operator, dims = workload.operator, workload.dims
        epilogue_flops, epilogue_loads, _ = epilogue_costs(workload)
        fused = operator.family == "matmul" and operator.epilogue
        return cls(
            flops=workload.flops,
            min_bytes=workload.min_bytes,
            reduction=operator.reduction(dims),
            **_sides(workload),
            channels_last=operator.anchor.endswith("_nhwc"),
            element_bytes=DTYPE_BYTES[workload.dtype],
            epilogue_flops=epilogue_flops,
            epilogue_loads=epilogue_loads,
            family=f"fused_{operator.family}" if fused else operator.family,
        )

    @classmethod
    def _of_program(cls, facts: ProgramFacts) -> "WorkloadFacts":
        return cls(
            flops=facts.flops,
            min_bytes=facts.min_bytes,
            reduction=facts.reduction,
            instances=facts.instances,
            rows=facts.rows,
            columns=facts.columns,
            window=facts.window,
            stride=facts.stride,
            channels_last=bool(facts.channels_last),
            element_bytes=facts.element_bytes,
            epilogue_flops=facts.epilogue_flops,
            epilogue_loads=facts.epilogue_loads,
            family=("", *FAMILIES)[facts.family],
        )


def _is_of(family: str) -> Callable[[WorkloadFacts], float]:
    return lambda workload: float(workload.family == family)


# ``results`` is the number of reductions that can run side by side.
WORKLOAD_FEATURES: tuple[Feature[WorkloadFacts], ...] = (
    Feature("log2_flops", "log2(flop)", "workload", lambda w: math.log2(w.flops)),
    Feature("log2_min_bytes", "log2(byte)", "workload", lambda w: math.log2(w.min_bytes)),
    Feature("log2_intensity", "log2(flop/byte)", "workload", lambda w: math.log2(w.flops / w.min_bytes)),
    Feature("log2_reduction", "log2(1)", "workload", lambda w: math.log2(w.reduction)),
    Feature("log2_results", "log2(1)", "workload", lambda w: math.log2(w.flops / (2 * w.reduction))),
    Feature("log2_instances", "log2(1)", "workload", lambda w: math.log2(w.instances)),
    Feature("log2_rows", "log2(1)", "workload", lambda w: math.log2(w.rows)),
    Feature("log2_columns", "log2(1)", "workload", lambda w: math.log2(w.columns)),
    Feature("log2_window", "log2(1)", "workload", lambda w: math.log2(w.window)),
    Feature("log2_stride", "log2(1)", "workload", lambda w: math.log2(w.stride)),
    Feature("channels_last", "1", "workload", lambda w: float(w.channels_last)),
    Feature("element_bytes", "byte", "workload", lambda w: float(w.element_bytes)),
    Feature("epilogue_flops", "flop", "workload", lambda w: float(w.epilogue_flops)),
    Feature("epilogue_loads", "1", "workload", lambda w: float(w.epilogue_loads)),
    *(Feature(f"is_{family}", "1", "workload", _is_of(family)) for family in FAMILIES),
)
WORKLOAD_COLUMNS = columns_of(WORKLOAD_FEATURES)


def workload_values(workload: Workload) -> list[FloatArray | float]:
    """A number for each of ``WORKLOAD_FEATURES``; NaN of a kernel of which nothing else is known."""
    if workload.is_opaque:
        return [math.nan] * len(WORKLOAD_FEATURES)
    return values_of(WORKLOAD_FEATURES, WorkloadFacts.of(workload))


def _sides(workload: Workload) -> dict[str, int]:
    """Sides of the matrix products that the anchor is, and window and stride of a convolution."""
    dims = workload.dims
    if "s" in dims:
        channels = dims.get("o", dims["c"])
        pixels = math.prod(workload.operator.output(dims)) // (dims["n"] * channels)
        return {
            "instances": dims["n"],
            "rows": pixels,
            "columns": channels,
            "window": dims["k"],
            "stride": dims["s"],
        }
    return {"instances": dims.get("b", 1), "rows": dims["m"], "columns": dims["n"], "window": 1, "stride": 1}
