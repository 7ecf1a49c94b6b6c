"""Workloads in half precision, as networks run them."""

from costmodel.records._operators import OPERATORS
from costmodel.records._workload import Workload


def in_float16(workload: Workload) -> Workload:
    """The same in float16, convolutions with channels last; what is no operator stays."""
    if workload.is_foreign or workload.dtype == "float16":
        return workload
    nhwc = workload.kind.replace("conv2d", "conv2d_nhwc")
    kind = nhwc if nhwc in OPERATORS else workload.kind
    return Workload(kind, workload.dims, "float16")
