"""What a kernel's time is made of, told by its name and launch: a start, and work of SMs or of the memory.

Constants are those of 4,800 kernels of an H100 whose launches are known, the fastest quarter of each workload
in ``datasets/{sm,cuda,triton,sparse}-sm-budgets``, from 132 to 96, 64, 32 and 16 SMs. With them half of the
kernels on 64 SMs are within 6 to 7 % (on Tensor Cores, and what moves data), on 32 SMs within 11 to 13 %.
Those of products on CUDA cores, of sums and norms, of gathers and of the rest are of PyTorch's kernels in
38 traced networks, on 64 and 32 SMs, which are then off by 3.3 and 5.0 %; 24 that no rule had met were off by
5.9 and 8.1 % (experiments/real_traces).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_class import KernelKind, Precision
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._transform import Mask, match_names
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._workload import Workload

# What of a kernel's time no change of its work or its SMs takes away.
START_S = 1.2e-6
# Warps that keep an SM busy: fewer take as long as these.
_BUSY_WARPS_OF_PRODUCTS, _BUSY_WARPS = 5.0, 10.0
_FEW_AT_ONCE = 2
# cuBLAS's products of a matrix and up to sixteen vectors, whose warps wait for the memory.
_OF_FEW_ROWS, _BUSY_WARPS_OF_FEW_ROWS = ("*gemmsn*",), 16.0
# What of the work is the memory's, which all SMs share. On CUDA cores and of kinds: with the least error of
# PyTorch's kernels in traced networks on 64 and 32 SMs (experiments/real_traces).
_SATURATED_ON_CUDA_CORES, _SATURATED_ON_TENSOR_CORES, _SATURATED = 0.15, 0.45, 0.65
# Convolutions of each channel by PyTorch's own kernels, which move data no more than they compute.
_COMPUTING, _SATURATED_OF_COMPUTING = ("*conv_depthwise*",), 0.15
_SATURATED_OF_KIND = {KernelKind.REDUCING: 0.55, KernelKind.SCATTERED: 0.55, KernelKind.OTHER: 0.8}
# What of the memory's time is left in half precision, which moves half of the bytes by as many instructions.
_OF_HALF = 0.8
# Bytes that the memory of an H100, of which the constants are, moves in a cycle of an SM. Of what another
# device has more, half counts, in logarithms: of sixteen networks on an H200, which has 1.43 times as many.
_BYTES_A_CYCLE, _COUNTS = 3.352e12 / (132 * 1.98e9), 0.5
# On Tensor Cores.
_ON_TENSOR_CORES = (Precision.TF32, Precision.HALF, Precision.NARROW)


def find_products(graph: KernelGraph) -> Mask:
    """Find the kernels that multiply matrices or a matrix and few vectors: an ``(n,)`` mask."""
    kinds = (KernelKind.PRODUCT, KernelKind.VECTOR_PRODUCT)
    return np.isin(graph.kernel_kinds, kinds) & graph.of_kind(TaskKind.KERNEL)


def find_vector_products(graph: KernelGraph) -> Mask:
    """Find the kernels that multiply a matrix and few vectors: an ``(n,)`` mask."""
    found: Mask = find_products(graph) & (graph.kernel_kinds == KernelKind.VECTOR_PRODUCT)
    return found


def find_tensor_core_products(graph: KernelGraph) -> Mask:
    """Find the matrix products in a type that Tensor Cores multiply: an ``(n,)`` mask."""
    return find_products(graph) & np.isin(graph.precisions, _ON_TENSOR_CORES)


def find_lane_products(graph: KernelGraph) -> Mask:
    """Find the matrix products on CUDA cores, in float32 or float64: an ``(n,)`` mask."""
    return find_products(graph) & np.isin(graph.precisions, (Precision.FLOAT32, Precision.FLOAT64))


def find_collectives(graph: KernelGraph) -> Mask:
    """Find the kernels that move data between ranks: an ``(n,)`` mask."""
    found: Mask = graph.of_kind(TaskKind.KERNEL) & (graph.kernel_kinds == KernelKind.COLLECTIVE)
    return found


def pace_on(
    graph: KernelGraph, had: NDArray[np.integer[Any]], sms: NDArray[np.integer[Any]] | int
) -> FloatArray:
    """Estimate how many times as long the SM with most blocks of a kernel works on so many SMs, ``(n,)``.

    It does its blocks in rounds of as many as it holds at once, and a round of few warps takes as long as one
    of as many as keep it busy. Where nobody knows what an SM holds the number of its blocks counts, and where
    nobody knows blocks 1 / SMs.

    Args:
        graph: The graph.
        had: ``(n,)`` SMs that kernels were recorded on.
        sms: SMs that they have.
    """
    busy = _busy_warps(graph)
    rounds = _rounds(graph, sms, busy) / np.maximum(_rounds(graph, had, busy), 1.0)
    return np.where(graph.blocks > 0, rounds, had / sms)


def slow_by_memory(graph: KernelGraph, pace: FloatArray, memory: FloatArray | float = 1.0) -> FloatArray:
    """Estimate ``(n,)`` what kernels take if SMs take ``pace`` times as long, and memory ``memory``.

    The two are the root of the sum of their squares, as they overlap.
    """
    on_tensor_cores = find_tensor_core_products(graph) | find_vector_products(graph)
    of_products = np.where(on_tensor_cores, _SATURATED_ON_TENSOR_CORES, _SATURATED_ON_CUDA_CORES)
    shared = np.where(find_products(graph), of_products, _SATURATED)
    for kind, saturated in _SATURATED_OF_KIND.items():
        shared[graph.kernel_kinds == kind] = saturated
    shared[match_names(graph, *_COMPUTING)] = _SATURATED_OF_COMPUTING
    return np.asarray(np.hypot(shared * memory, (1 - shared) * pace) / np.hypot(shared, 1 - shared))


def _memory_on_part(graph: KernelGraph) -> FloatArray:
    """``(n,)`` how long the memory's part is beside that of SMs; 1 for float32 on an H100."""
    halved = (graph.precisions == Precision.HALF) & ~find_products(graph)
    device, relative = graph.device, 1.0
    if device is not None and device.bandwidth_gb_s and device.clock_mhz and device.sms:
        bytes_a_cycle = device.bandwidth_gb_s * 1e9 / (device.sms * device.clock_mhz * 1e6)
        relative = (_BYTES_A_CYCLE / bytes_a_cycle) ** _COUNTS
    return np.where(halved, _OF_HALF, 1.0) * relative


def estimate_on_part(graph: KernelGraph, had: NDArray[np.integer[Any]], sms: int) -> FloatArray:
    """Estimate ``(n,)`` what kernels take on other SMs of a GPU, in which the memory's part is a whole GPU's.

    Of a kernel that was recorded on a part of its GPU, the memory has less of the time than on all of it.
    """
    whole, memory = np.maximum(had, graph.device.sms if graph.device else 0), _memory_on_part(graph)
    there, here = (slow_by_memory(graph, pace_on(graph, whole, each), memory) for each in (sms, had))
    return there / here


def count_rounds(graph: KernelGraph) -> FloatArray:
    """Count how often a kernel fills the GPU, ``(n,)``: its blocks over those that all SMs hold at once.

    1 where nobody knows blocks or SMs, 0 of what is no kernel.
    """
    is_known = (graph.blocks > 0) & (graph.sms > 0)
    rounds = graph.blocks / (np.maximum(graph.sms, 1) * np.maximum(graph.sm_blocks, 1))
    return np.where(graph.of_kind(TaskKind.KERNEL), np.where(is_known, rounds, 1.0), 0.0)


def _busy_warps(graph: KernelGraph) -> FloatArray:
    of_few_rows = match_names(graph, *_OF_FEW_ROWS)
    of_products = np.where(of_few_rows, _BUSY_WARPS_OF_FEW_ROWS, _BUSY_WARPS_OF_PRODUCTS)
    return np.where(find_products(graph), of_products, _BUSY_WARPS)


def _is_held(graph: KernelGraph) -> Mask:
    """``(n,)`` whether it is known what an SM holds of a kernel."""
    return (graph.sm_blocks > 0) & (graph.block_warps > 0)


def _warps(graph: KernelGraph, busy: FloatArray) -> FloatArray:
    """``(n,)`` warps of a block; where nobody knows what an SM holds, as many as keep it busy."""
    return np.where(_is_held(graph), graph.block_warps, busy)


def _rounds(graph: KernelGraph, sms: NDArray[np.integer[Any]] | int, busy: FloatArray) -> FloatArray:
    """``(n,)`` work of the SM with most blocks, in warps."""
    at_once, warps = np.where(_is_held(graph), graph.sm_blocks, 1), _warps(graph, busy)
    full, rest = np.divmod(np.ceil(graph.blocks / sms), at_once)
    # Of large blocks on CUDA cores, of which an SM holds two, one that is left over takes as long as both.
    as_both = _is_held(graph) & (at_once <= _FEW_AT_ONCE) & (full > 0) & find_lane_products(graph)
    last = np.where(as_both & (rest > 0) & ~find_vector_products(graph), at_once, rest)
    return np.asarray(full * np.maximum(at_once * warps, busy) + (rest > 0) * np.maximum(last * warps, busy))


def scale_work(graph: KernelGraph, factors: FloatArray) -> FloatArray:
    """Return ``(n,)`` durations of kernels if their work took ``factors`` times as long."""
    start = np.minimum(START_S, graph.durations_s)
    return np.where(
        graph.of_kind(TaskKind.KERNEL), start + (graph.durations_s - start) * factors, graph.durations_s
    )


def raise_to_floor(graph: KernelGraph, changed: KernelGraph) -> KernelGraph:
    """Let no kernel take less than its workload takes at least on the device and SMs that it now has.

    A kernel that was recorded as faster than its workload allows does less than that, such as a convolution
    by Winograd's algorithm; it may stay faster by as much.

    Args:
        graph: As it was.
        changed: The same tasks as predicted.
    """
    least_s = find_least_s(changed)
    if not least_s.any():
        return changed
    before_s = find_least_s(graph)
    share = np.ones(len(graph))
    np.divide(graph.durations_s, before_s, out=share, where=before_s > 0)
    floor_s = least_s * np.minimum(share, 1.0)
    raised = int((changed.durations_s < floor_s).sum())
    if not raised:
        return changed
    assert changed.device is not None
    return changed.assuming(
        f"{raised:,} kernels take what {changed.device.name} needs at least for their arithmetic and bytes.",
        durations_s=np.maximum(changed.durations_s, floor_s),
    )


def find_least_s(graph: KernelGraph) -> FloatArray:
    """Find ``(n,)`` seconds that a kernel's workload takes at least; 0 where it or the device is unknown."""
    found = np.zeros(len(graph))
    if graph.device is None:
        return found
    kernels = np.flatnonzero(graph.of_kind(TaskKind.KERNEL) & (graph.workload_ids > 0))
    known: dict[tuple[int, int, bool], float] = {}
    for task in kernels.tolist():
        sms, is_tf32 = int(graph.sms[task]), graph.precisions[task] == Precision.TF32
        key = int(graph.workload_ids[task]), sms, bool(is_tf32)
        if key not in known:
            workload = Workload.parse(graph.workload(task))
            known[key] = least_latency_s(workload, graph.device, sms or None, is_tf32=key[-1])
        found[task] = known[key]
    return found
