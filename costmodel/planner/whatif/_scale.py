"""Kernels that take another time: scaled, measured elsewhere, on other SMs, or in half precision."""

from collections.abc import Mapping

import numpy as np

from costmodel.arguments import check_whole
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_class import KernelClass, KernelKind, Precision
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.graphs.traces._kernel_facts import in_float16
from costmodel.planner.whatif._kernel_time import (
    START_S,
    find_lane_products,
    find_products,
    find_vector_products,
    pace_on,
    raise_to_floor,
    scale_work,
    slow_by_memory,
)
from costmodel.planner.whatif._transform import check_positive, in_scope, kernels_named
from costmodel.records._workload import Workload


def scale(graph: KernelGraph, pattern: str, factor: float) -> KernelGraph:
    """Multiply the durations of kernels, copies and memsets with a matching name by ``factor``.

    Raises:
        CostModelError: If no name matches, or the factor is negative or not finite.
    """
    found = kernels_named(graph, pattern)
    durations = np.where(found, graph.durations_s * check_positive(factor, "factor"), graph.durations_s)
    return graph.assuming(
        f"{found.sum():,} kernels that match {pattern} take {factor:g} times as long.", durations_s=durations
    )


def replace_latencies(graph: KernelGraph, latencies_s: Mapping[str, float]) -> KernelGraph:
    """Set the latencies of kernels, copies and memsets by name pattern; of several matches the last counts.

    Raises:
        CostModelError: If no name matches a pattern, or a latency is negative or not finite.
    """
    durations, sentences = graph.durations_s.copy(), []
    for pattern, latency in latencies_s.items():
        found = kernels_named(graph, pattern)
        durations[found] = check_positive(latency, "latency")
        sentences.append(f"{found.sum():,} kernels that match {pattern} take {latency * 1e6:g} us.")
    return graph.assuming(*sentences, durations_s=durations)


def on_sms(
    graph: KernelGraph,
    sms: int,
    *,
    recorded: int | None = None,
    latencies_s: Mapping[str, Mapping[int, float]] | None = None,
) -> KernelGraph:
    """Estimate each kernel on another number of SMs.

    The SM with the most blocks sets the pace: it runs them in rounds of as many as it holds at once, and a
    few warps take as long as the number that keeps it busy. In addition, all SMs share the memory, which
    takes a small part of a matrix product's time and most of that of others. If the blocks are unknown, work
    scales with 1 / SMs.

    Args:
        graph: The graph.
        sms: Number of SMs of all kernels.
        recorded: Number of SMs that the kernels were recorded on. A trace gives that of its GPU, whether or
            not only a part of them was used. Default: the number in the graph.
        latencies_s: Measured or predicted latencies in seconds to use instead, by name pattern and number of
            SMs.

    Raises:
        CostModelError: If the number of SMs that a kernel was recorded on is unknown, or an argument is
            invalid.
    """
    check_whole("sms", sms, 1)
    if recorded is not None:
        check_whole("recorded", recorded, 1)
    kernels = graph.of_kind(TaskKind.KERNEL)
    had = np.where(kernels, recorded or graph.sms, 1)
    if (had < 1).any():
        raise CostModelError(
            "The graph must contain the number of SMs that kernels were recorded on, but does not. Give "
            f"it, as in sms:N={sms} with the N SMs of the GPU that it was recorded on."
        )
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {sms} SMs: work goes with the rounds of blocks of the fullest SM, and "
        f"with what does not depend on SMs, little of products and most of others, beside "
        f"{START_S * 1e6:g} us to start; copies and the host take the same.",
        durations_s=scale_work(graph, slow_by_memory(graph, pace_on(graph, had, sms))),
        sms=np.where(kernels, sms, graph.sms).astype(np.int32),
    )
    changed = raise_to_floor(graph, changed)
    known = {name: curve[sms] for name, curve in (latencies_s or {}).items() if sms in curve}
    return replace_latencies(changed, known) if known else changed


# Products of 1 GFLOP and more, beside their start: in float32 on CUDA cores the fastest recorded kernels
# reach 27 TFLOP/s in the median (from 2 GFLOP on 31), in float16 cuBLAS 320 (360):
# datasets/{sm,cuda,triton}-sm-budgets.
_PRODUCTS = 1 / 12
# Half the bytes, and TF32 has half the rate of float16.
_BYTES = 1 / 2
# Scope of optimisers, whose weights stay in float32.
_OPTIMIZER = "Optimizer.step*"
# Types that are taken to be float32, and what runs in another then.
_WIDE = (Precision.UNKNOWN, Precision.FLOAT32, Precision.TF32)
_HALVED_KINDS = (KernelKind.PRODUCT, KernelKind.VECTOR_PRODUCT, KernelKind.STREAMING)


def half_precision(graph: KernelGraph, products_factor: float = _PRODUCTS) -> KernelGraph:
    """Run kernels that were recorded in float32 in float16 or bfloat16.

    Matrix products that are known to run on CUDA cores move to Tensor Cores. Other products (in TF32, of
    vectors, or of a type that neither operator nor name tells) and kernels that do the same to each element
    take half of their work. Kernels that are in half precision already stay as they are, and so do others
    (sums, norms, softmaxes, gathers), which are bound by latency or keep float32 internally, and optimisers,
    which keep their weights. Casts that autocast adds are not among the kernels.

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
    wide = np.isin(graph.precisions, _WIDE) & ~in_scope(graph, _OPTIMIZER) & graph.of_kind(TaskKind.KERNEL)
    computing = wide & find_lane_products(graph) & ~find_vector_products(graph)
    moving = wide & ~computing & (find_products(graph) | (graph.kernel_kinds == KernelKind.STREAMING))
    factors: FloatArray = np.ones(len(graph))
    factors[computing] = check_positive(products_factor, "factor")
    factors[moving] = _BYTES
    others = graph.of_kind(TaskKind.KERNEL) & ~computing & ~moving
    untold = moving & (graph.precisions == Precision.UNKNOWN)
    changed = graph.assuming(
        f"In half precision {computing.sum():,} matrix products on CUDA cores take {products_factor:.3g} of "
        f"their work, {moving.sum():,} kernels in TF32 or that wait for bytes {_BYTES:g} ({untold.sum():,} "
        f"of untold types), beside {START_S * 1e6:g} us to start; {others.sum():,} others take the same; "
        "casts are not added.",
        durations_s=scale_work(graph, factors),
        workloads=("", *(in_float16(Workload.parse(name)).name for name in graph.workloads[1:])),
        classes=tuple(_halved(each) for each in graph.classes),
    )
    return raise_to_floor(graph, changed)


def _halved(kernels: KernelClass) -> KernelClass:
    """The class of kernels once they run in half precision."""
    changes = kernels.kind in _HALVED_KINDS and kernels.precision in _WIDE
    return KernelClass(kernels.kind, Precision.HALF) if changes else kernels
