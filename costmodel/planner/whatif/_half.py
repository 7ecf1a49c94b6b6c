"""Half precision: matrix products on Tensor Cores, and half as many bytes for all else."""

import numpy as np

from costmodel.planner.graphs import KernelGraph, TaskKind
from costmodel.planner.whatif._base import positive
from costmodel.planner.whatif._bounds import START_S, products, with_work
from costmodel.records import OPERATORS, Workload

# float32 without Tensor Cores against float16 with them: 128 lanes x 2 and 4096 operations a clock of an SM
# of Hopper. Of the latter large products reach 65 % (datasets/triton-sm-budgets), of the former 75 % is
# taken.
_PRODUCTS = 1 / 14
_OTHERS = 1 / 2


def half_precision(graph: KernelGraph, products_factor: float = _PRODUCTS) -> KernelGraph:
    """Kernels in float16 or bfloat16 that were recorded in float32.

    Args:
        graph: The graph.
        products_factor: What matrix products, convolutions and attention take of their work; other kernels
            take half, as they move half as many bytes.

    Raises:
        CostModelError: The factor is negative or not finite.

    Reference:
        H. Zhu et al., Daydream, USENIX ATC 2020, section 5.1, takes 1/3 for products on older Tensor Cores.
    """
    matrix = products(graph)
    kernels = graph.of_kind(TaskKind.KERNEL)
    factors = np.where(matrix, positive(products_factor, "factor"), _OTHERS)
    return graph.assuming(
        f"{matrix.sum():,} matrix products in half precision take {products_factor:.3g} of their work, "
        f"{(kernels & ~matrix).sum():,} other kernels {_OTHERS:g}, beside {START_S * 1e6:g} us to start.",
        durations_s=with_work(graph, factors),
        workloads=("", *(_in_half(Workload.parse(name)).name for name in graph.workloads[1:])),
    )


def _in_half(workload: Workload) -> Workload:
    """The same in float16, convolutions with channels last; what is no operator stays."""
    if workload.is_foreign or workload.dtype == "float16":
        return workload
    nhwc = workload.kind.replace("conv2d", "conv2d_nhwc")
    kind = nhwc if nhwc in OPERATORS else workload.kind
    return Workload(kind, workload.dims, "float16")
