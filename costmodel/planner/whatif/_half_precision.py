"""Kernels in half precision: what is left of their time, and what PyTorch then adds or leaves out.

Constants are those of kernels of 62 networks on an H100 and an H200, each beside its counterpart in
float16 or bfloat16 (datasets/traces and experiments/real_traces).
"""

import re
from typing import NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_class import KernelClass, KernelKind, Precision
from costmodel.planner.graphs._kernel_graph import DependencyKind, KernelGraph, TaskKind
from costmodel.planner.graphs._trace_kernels import in_float16
from costmodel.planner.whatif._fuse import fuse_attention
from costmodel.planner.whatif._kernel_time import (
    START_S,
    find_lane_products,
    find_products,
    find_tensor_core_products,
    find_vector_products,
    raise_to_floor,
)
from costmodel.planner.whatif._transform import (
    AddedKernels,
    Mask,
    check_positive,
    find_followers,
    in_scope,
    insert_kernels,
    match_names,
)
from costmodel.records._workload import Workload


class _Remains(NamedTuple):
    """What kernels of a kind still take.

    Attributes:
        share: Of what is longer than their start.
        start_s: Seconds of which nothing goes.
        least_s: Seconds less than which none takes that took more.
    """

    share: float
    start_s: float = 0.0
    least_s: float = 0.0

    def of(self, durations_s: FloatArray) -> FloatArray:
        """Return what kernels of these durations take."""
        start_s = np.minimum(durations_s, self.start_s)
        remains_s = start_s + (durations_s - start_s) * self.share
        return np.maximum(remains_s, np.minimum(durations_s, self.least_s))


# On CUDA cores, so that they move to Tensor Cores, and what each number of the output costs there, which
# matters where few are added up for it. A tile of the output stands in a kernel's name.
_LANE_PRODUCTS, _OUTPUT_S = _Remains(0.05, 2.8e-6, 3.8e-6), 0.65e-12
_TILE = re.compile(r"(?<!\d)(\d{2,3})x(\d{2,3})(?!\d)")
# Tensor Cores read 16 bytes at a time: rows that are no multiples of 8 numbers gain less.
_UNALIGNED, _ALIGNED = _Remains(0.26, 3.3e-6, 4e-6), 8
# In TF32, which has half of float16's rate, of vectors, or of a type that nobody tells.
_OTHER_PRODUCTS = _Remains(0.5, START_S, 3e-6)
# Convolutions that stay on CUDA cores although others use TF32 have three channels, and stay slow. So has the
# first of a network that begins with it.
_OF_FEW_CHANNELS, _CONVOLUTIONS = _Remains(0.8, START_S, 4e-6), ("conv", "fprop")
# Attention whose heads have more than 128 channels, for which no other kernel is made.
_OF_WIDE_HEADS, _WIDE_ATTENTION = _Remains(0.35, START_S, 4e-6), ("*fmha_cutlassf*gmem*",)
# The same to each element, in the order of the memory and in another.
_STREAMING, _STRIDED = _Remains(0.47, START_S, 3e-6), _Remains(0.9, START_S, 5e-6)
# Sums and norms that fill the GPU; others wait for their few blocks.
_REDUCING = _Remains(0.8, START_S, 4.4e-6)
# Others than their kind; of several the last counts.
_BY_NAME = (
    # cuDNN's convolutions gain less than products, but not those backwards; newer ones take over from older.
    ("*fprop*tf32*", _Remains(0.62, START_S, 4e-6)),
    ("*sm80*fprop_implicit_gemm_tf32*", _Remains(0.45, START_S, 4e-6)),
    # What computes for each element more than it reads.
    ("*elementwise*gelu*", _Remains(0.62, START_S, 3e-6)),
    ("*elementwise*softplus*", _Remains(0.95, START_S, 3e-6)),
    # cuDNN's kernels from one order of the memory to another, and its batch norms, for which PyTorch's run.
    ("*nchwtonhwc*", _STRIDED),
    ("*nhwctonchw*", _STRIDED),
    ("*bn_fw_inf*nhwc*", _Remains(0.3, START_S, 3.5e-6)),
    ("*bn_fw_inf*nchw*", _Remains(0.8, START_S, 7.5e-6)),
    # PyTorch's own convolutions of each channel: those of these sizes become cuDNN's, others gain nothing.
    ("*conv_depthwise*", _Remains(1.0)),
    ("*conv_depthwise2d_*kernel<[135],*", _STREAMING),
    # What cuBLAS does after a product on CUDA cores is part of it on Tensor Cores.
    ("*cublaslt::epilogue*", _Remains(0.0)),
)
# Types that are taken to be float32, and what runs in another then.
_WIDE = (Precision.UNKNOWN, Precision.FLOAT32, Precision.TF32)
_HALVED_KINDS = (
    KernelKind.PRODUCT,
    KernelKind.VECTOR_PRODUCT,
    KernelKind.STREAMING,
    KernelKind.SCATTERED,
    KernelKind.REDUCING,
)
# Optimisers keep their weights in float32 under autocast: their scope, and their kernels.
_OPTIMIZER, _OPTIMIZER_KERNELS = "Optimizer.step*", ("multi_tensor_apply", "fused*adam")
# What is copied within a GPU, and what of it is left; autocast copies gradients and weights.
_COPIES, _OF_COPIES = ("*dtod*",), 0.5
# cuDNN's batch norm of inference becomes three kernels, two of which prepare weights.
_NORMS, _OF_NORM, _PREPARES_S = ("bn_fw_inf",), 2, 1.9e-6
# Convolutions that read channels last and write them first: in half precision a kernel of its own does it.
_TURNING = ("nhwckrsc_nchw_",)
# Autocast converts weights, gradients and what layers pass on: what that takes for a product, beside a share
# of the product's time in float32, and the host's part. Of eight networks: 1.8 to 8.1 us, and 14 to 54.
_CAST_S, _CAST_SHARE, _CASTS_OF_HOST_S = 2.7e-6, 0.02, 18e-6
_CONVERSION = "conversion for half precision", KernelClass(KernelKind.STREAMING, Precision.HALF)


def half_precision(
    graph: KernelGraph, products_factor: float | None = None, *, weights: bool = False
) -> KernelGraph:
    """Run kernels that were recorded in float32 in float16 or bfloat16; training by autocast or throughout.

    Matrix products that are known to run on CUDA cores move to Tensor Cores; others take half of their work.
    Kernels that do the same to each element take half, those in another order of the memory, sums and norms
    most of it. Short ones take as long as before. What is in half precision already stays as it is, and so do
    gathers, sorts, random numbers, and optimisers, which keep their weights. Attention that PyTorch computes
    in parts becomes one kernel. What PyTorch and its libraries then do beside is added to the kernels that
    cause it: conversions of layouts, of norms' weights, and of autocast, if there is an optimiser.

    Args:
        graph: The graph.
        products_factor: Fraction of their work that matrix products, convolutions and attention on CUDA cores
            still take. Default: as on an H100.
        weights: Whether weights and gradients are in half precision, too, where there is an optimiser; else
            it is autocast, which casts them.

    Raises:
        CostModelError: If the factor is negative or not finite.

    Reference:
        H. Zhu et al., Daydream, USENIX ATC 2020, section 5.1, takes 1/3 for products on older Tensor Cores
        and 1/2 for all else.
    """
    graph = fuse_attention(graph)
    kernels = graph.of_kind(TaskKind.KERNEL)
    optimizing = kernels & (in_scope(graph, _OPTIMIZER) | match_names(graph, *_OPTIMIZER_KERNELS))
    is_autocast = optimizing.any() and not weights
    halved = kernels & np.isin(graph.kernel_kinds, _HALVED_KINDS) & ~optimizing
    halved |= optimizing & (not is_autocast)
    halved &= np.isin(graph.precisions, _WIDE)
    durations_s = _in_half(graph, halved, products_factor)
    if not is_autocast:
        durations_s[graph.of_kind(TaskKind.COPY) & match_names(graph, *_COPIES)] *= _OF_COPIES
    turning_s = _turning_s(graph, halved, durations_s)
    norms = halved & match_names(graph, *_NORMS)
    casts = halved & find_products(graph) & is_autocast
    computing = halved & find_lane_products(graph) & ~find_vector_products(graph)
    changed = graph.assuming(
        f"In half precision {computing.sum():,} matrix products on CUDA cores move to Tensor Cores, "
        f"{(halved & ~computing).sum():,} kernels gain by bytes if they are longer than a few us, "
        f"{(kernels & ~halved).sum():,} others take the same{_of_conversions(turning_s > 0, norms, casts)}.",
        # Kernels on Tensor Cores have blocks of their own, mostly one for each SM: their work goes with SMs.
        blocks=np.where(computing & (graph.blocks >= graph.sms), 0, graph.blocks),
        durations_s=durations_s + _of_host_s(graph, casts),
        workloads=("", *(in_float16(Workload.parse(name)).name for name in graph.workloads[1:])),
        classes=tuple(_halved(each) for each in graph.known_classes),
    )
    casts_s = np.where(casts, _CAST_S + _CAST_SHARE * graph.durations_s, 0.0)
    return _with_conversions(raise_to_floor(graph, changed), turning_s, norms, casts_s)


def _in_half(graph: KernelGraph, halved: Mask, products_factor: float | None) -> FloatArray:
    """``(n,)`` what tasks take themselves."""
    moved, unaligned, few_channels, wide = _LANE_PRODUCTS, _UNALIGNED, _OF_FEW_CHANNELS, _OF_WIDE_HEADS
    if products_factor is not None:
        told = _Remains(check_positive(products_factor, "factor"), START_S)
        moved = unaligned = few_channels = wide = told
    kinds, lanes = graph.kernel_kinds, find_lane_products(graph) & ~find_vector_products(graph)
    of_few_channels = lanes & match_names(graph, *_CONVOLUTIONS)
    of_few_channels &= find_tensor_core_products(graph).any() | _is_first_product(graph)
    is_unaligned = lanes & _is_unaligned(graph)
    is_small = (graph.blocks > 0) & (graph.blocks < graph.sms)
    durations_s = graph.durations_s.copy()
    for those, remains in (
        (find_products(graph), _OTHER_PRODUCTS),
        (lanes, moved),
        (is_unaligned, unaligned),
        (of_few_channels, few_channels),
        (lanes & match_names(graph, *_WIDE_ATTENTION), wide),
        (np.isin(kinds, (KernelKind.STREAMING, KernelKind.OTHER)), _STREAMING),  # others: of optimisers
        ((kinds == KernelKind.SCATTERED) & match_names(graph, "*elementwise*"), _STRIDED),
        ((kinds == KernelKind.REDUCING) & ~is_small, _REDUCING),
        *((match_names(graph, name), remains) for name, remains in _BY_NAME),
    ):
        chosen = halved & those
        durations_s[chosen] = remains.of(graph.durations_s[chosen])
    if products_factor is None:
        durations_s += np.where(halved & lanes & ~(is_unaligned | of_few_channels), _output_s(graph), 0.0)
    return durations_s


def _is_first_product(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a kernel is the first of all products."""
    products = graph.order[find_products(graph)[graph.order]]
    return np.isin(np.arange(len(graph)), products[:1])


def _output_s(graph: KernelGraph) -> FloatArray:
    """``(n,)`` seconds for what a product on Tensor Cores writes; 0 where its tile is unknown."""
    found = [_TILE.search(name) for name in graph.names]
    tiles = np.array([float(each[1]) * float(each[2]) if each else 0.0 for each in found])
    return np.asarray(graph.blocks * tiles[graph.name_ids] * _OUTPUT_S)


def _is_unaligned(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a product's sizes are known, and rows of its matrices no multiples of 16 bytes."""
    dims = [Workload.parse(name).dims if name else {} for name in graph.workloads]
    is_product = ["m" in each and "k" in each for each in dims]
    rows = [[each.get("n", 0) % _ALIGNED, each.get("k", 0) % _ALIGNED] for each in dims]
    return (np.array(is_product) & np.array(rows).any(axis=1))[graph.workload_ids]


def _turning_s(graph: KernelGraph, halved: Mask, durations_s: FloatArray) -> FloatArray:
    """``(n,)`` seconds that the layout of a kernel's output takes, which a kernel of its own converts.

    It moves as much as the next kernel, if that does the same to each element.
    """
    follower = find_followers(graph)
    is_moving = np.isin(graph.kernel_kinds, (KernelKind.STREAMING, KernelKind.SCATTERED))
    turning = halved & match_names(graph, *_TURNING) & (follower >= 0) & is_moving[follower]
    return np.where(turning, durations_s[follower], 0.0)


def _of_conversions(turning: Mask, norms: Mask, casts: Mask) -> str:
    causes = {"layouts": turning, "weights of norms": norms, "products by autocast": casts}
    told = [f"{found.sum():,} {what}" for what, found in causes.items() if found.any()]
    return f"; kernels that convert are added for {', '.join(told)}" if told else ""


def _with_conversions(
    graph: KernelGraph, turning_s: FloatArray, norms: Mask, casts_s: FloatArray
) -> KernelGraph:
    """Add kernels for layouts, weights of norms and casts behind those that cause them."""
    counts = np.where(casts_s > 0, 1, np.where(norms, _OF_NORM, (turning_s > 0).astype(int)))
    each_s = np.where(casts_s > 0, casts_s + turning_s, np.where(norms, _PREPARES_S, turning_s))
    return insert_kernels(graph, AddedKernels(*_CONVERSION, counts, each_s, np.where(norms, 1, 0)))


def _of_host_s(graph: KernelGraph, casts: Mask) -> FloatArray:
    """``(n,)`` seconds of calls for the casts of what they launch."""
    edges = graph.dependencies.where(graph.dependencies.kinds == DependencyKind.LAUNCH)
    counts = np.bincount(edges.sources, casts[edges.targets], minlength=len(graph))
    return np.asarray(counts * _CASTS_OF_HOST_S, dtype=np.float64)


def _halved(kernels: KernelClass) -> KernelClass:
    """The class of kernels once they run in half precision."""
    changes = kernels.kind in _HALVED_KINDS and kernels.precision in _WIDE
    return KernelClass(kernels.kind, Precision.HALF) if changes else kernels
