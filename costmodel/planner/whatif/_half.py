"""Half precision: matrix products on Tensor Cores, and half as many bytes for what moves data."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._base import KernelGraph, TaskKind
from costmodel.planner.graphs._float16 import in_float16
from costmodel.planner.whatif._base import Mask, in_scope, named, positive
from costmodel.planner.whatif._bounds import (
    START_S,
    products,
    products_in_half,
    products_in_tf32,
    products_of_vectors,
    with_work,
)
from costmodel.records._workload import Workload

# Products of 1 GFLOP and more, beside their start: in float32 on CUDA cores the fastest recorded kernels
# reach 27 TFLOP/s in the median (from 2 GFLOP on 31), in float16 cuBLAS 320 (360):
# datasets/{sm,cuda,triton}-sm-budgets.
_PRODUCTS = 1 / 12
# Half the bytes, and TF32 has half the rate of float16.
_BYTES = 1 / 2
# Parts of names of kernels that do the same to each element, and so wait for the memory.
_STREAMING = ("vectorized_elementwise", "unrolled_elementwise", "CatArray", "bn_fw_inf", "convertTensor")
# What stays as it is: weights of optimisers in float32, and what is in half precision already.
_OPTIMIZER, _KEPT = "Optimizer.step*", ("multi_tensor_apply", "c10::Half", "c10::BFloat16")


def half_precision(graph: KernelGraph, products_factor: float = _PRODUCTS) -> KernelGraph:
    """Run kernels that were recorded in float32 in float16 or bfloat16.

    Matrix products on CUDA cores move to Tensor Cores. Products already on Tensor Cores in TF32,
    matrix-vector products and elementwise kernels take half of their work. Other kernels (sums, norms,
    softmaxes, gathers) are bound by latency or keep float32 internally, as optimisers keep their weights:
    their time does not change. Casts that autocast adds are not among the kernels.

    Args:
        graph: The graph.
        products_factor: Fraction of their work that matrix products, convolutions and attention on CUDA cores
            still take.

    Raises:
        CostModelError: If the factor is negative or not finite.

    Reference:
        H. Zhu et al., Daydream, USENIX ATC 2020, section 5.1, takes 1/3 for products on older Tensor Cores
        and 1/2 for all else.
    """
    computing, moving = _computing(graph), _moving(graph)
    factors: FloatArray = np.ones(len(graph))
    factors[computing] = positive(products_factor, "factor")
    factors[moving] = _BYTES
    others = graph.of_kind(TaskKind.KERNEL) & ~computing & ~moving
    return graph.assuming(
        f"In half precision {computing.sum():,} matrix products on CUDA cores take {products_factor:.3g} of "
        f"their work, {moving.sum():,} kernels in TF32 or that wait for bytes {_BYTES:g}, beside "
        f"{START_S * 1e6:g} us to start; {others.sum():,} others take the same; casts are not added.",
        durations_s=with_work(graph, factors),
        workloads=("", *(in_float16(Workload.parse(name)).name for name in graph.workloads[1:])),
    )


def _computing(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a kernel is a matrix product on CUDA cores."""
    elsewhere = products_in_half(graph) | products_in_tf32(graph) | products_of_vectors(graph)
    return products(graph) & ~elsewhere


def _moving(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a kernel takes half as long where it moves half the bytes."""
    streaming = named(graph, *_STREAMING) & graph.of_kind(TaskKind.KERNEL)
    kept = in_scope(graph, _OPTIMIZER) | named(graph, *_KEPT)
    slow_products = (products_in_tf32(graph) | products_of_vectors(graph)) & ~products_in_half(graph)
    return slow_products | (streaming & ~kept)
