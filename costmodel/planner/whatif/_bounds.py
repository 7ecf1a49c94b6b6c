"""What a kernel's time is made of, told by its name: a start, and work that grows with its blocks.

Measured on 64 to 16 of the 132 SMs of an H100 and an H200, for 93 curves of PyTorch's calls that fill
the whole GPU (``datasets/cuda-sm-budgets``, ``datasets/triton-sm-budgets``): of products, norms and softmaxes
2 us do not depend on the SMs, 1 us of which is taken to pass between kernels (median error 12 to 18 % and 3
to 7 %); of calls that move data half does not, as half of the SMs saturate the memory (4 to 5 %).
"""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs import KernelGraph, TaskKind
from costmodel.planner.whatif._base import Mask, named

# What of a kernel's time no change of its work or its SMs takes away.
START_S = 1e-6
# What of the rest of a kernel that moves data does not depend on its SMs.
SATURATED_SHARE = 0.5
# Parts of names of matrix products, convolutions and attention of PyTorch, cuBLAS, cuDNN and CUTLASS.
PRODUCTS = (
    "gemm",
    "gemv",
    "conv",
    "winograd",
    "fprop",
    "dgrad",
    "wgrad",
    "cutlass",
    "xmma",
    "nvjet",
    "fmha",
    "flash",
    "attention",
)


# Those, and other kernels that an SM cannot do faster when it has the memory for itself.
COMPUTING = (*PRODUCTS, "softmax", "norm")


def products(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a task is a kernel that multiplies matrices, as far as its name says."""
    return named(graph, *PRODUCTS) & graph.of_kind(TaskKind.KERNEL)


def saturated_share(graph: KernelGraph) -> FloatArray:
    """``(n,)`` what of a kernel's work does not depend on its SMs."""
    return np.where(named(graph, *COMPUTING), 0.0, SATURATED_SHARE)


def with_work(graph: KernelGraph, factors: FloatArray) -> FloatArray:
    """``(n,)`` durations of kernels if their work took ``factors`` times as long."""
    start = np.minimum(START_S, graph.durations_s)
    return np.where(
        graph.of_kind(TaskKind.KERNEL), start + (graph.durations_s - start) * factors, graph.durations_s
    )
