"""Latency of matrix products by their waves on the granted SMs: rates of an H100, nothing learned."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.arrays import FloatArray

_WHOLE = 132  # SMs, which cuBLAS takes for granted
_BYTES = {"float32": 4, "tfloat32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "float8_e4m3": 1}
# flop/s of one SM: dense products on Tensor Cores, float32 on CUDA cores
_FLOPS = {"float32": 0.45e12, "tfloat32": 3e12, "int8": 12e12, "float8_e4m3": 12e12}
_USUAL_FLOPS = 6e12
_L2_BYTES, _DRAM_BYTES, _MOST_DRAM_BYTES = 90e9, 40e9, 3e12  # bytes/s of one SM, and of the device
_SHARED_BYTES, _REGISTERS, _THREADS = 227 * 1024, 65536, 2048  # of one SM
_LATENCY_S, _LAUNCH_S = 0.7e-6, 2e-6  # of a load, and of a kernel
_OTHER_REGISTERS = 48  # of a thread, beside its sums


class Product(NamedTuple):
    """A matrix product; layouts are ``n`` (as read) or ``t`` (transposed), of A and then of B."""

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "float16"
    layout: str = "nt"
    epilogue: str = ""


class Kernel(NamedTuple):
    """A kernel that computes a product; the library's has no blocks."""

    backend: str
    kind: str = "plain"
    block_m: int = 0
    block_n: int = 0
    block_k: int = 0
    stages: int = 0
    warps: int = 0
    group_m: int = 8
    splits: int = 1
    programs_per_sm: int = 0


_OF_LIBRARY = tuple(
    Kernel("library", "plain", m, n, 64, 4, 8 if m * n > 8192 else 4, splits=splits)
    for m, n in ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
    for splits in (1, 4)
)


def predict_seconds(
    product: Product, kernels: Sequence[Kernel], sms: int, device: str = "NVIDIA H100 80GB HBM3"
) -> FloatArray:
    """Predict the latency of each kernel of a product on a number of SMs."""
    del device
    seconds = _blocked(product, kernels, sms)
    known = _blocked(product, _OF_LIBRARY, _WHOLE)
    library = _blocked(product, _OF_LIBRARY, sms)[int(np.argmin(known))]
    calls = [i for i, each in enumerate(kernels) if each.backend == "torch"]
    seconds[calls] = [
        library if kernels[i].splits == 1 else _split(product, kernels[i].splits, sms) for i in calls
    ]
    return seconds


def _split(product: Product, splits: int, sms: int) -> float:
    """A batched product of parts of K, then their sum."""
    parts = product._replace(k=max(1, product.k // splits), batch=splits)
    summed = 4.0 * splits * product.m * product.n
    return float(_blocked(parts, _OF_LIBRARY, sms).min()) + _LAUNCH_S + summed / (sms * _L2_BYTES)


def _blocked(product: Product, kernels: Sequence[Kernel], sms: int) -> FloatArray:
    m, n, k, batch, dtype, _, _ = product
    columns = np.array([each[2:] for each in kernels], dtype=float).T
    bm, bn, bk, stages, warps, _, splits, _ = np.maximum(columns, 1.0)
    size = _BYTES[dtype]
    tiles = batch * splits * np.ceil(m / bm) * np.ceil(n / bn)
    registers = np.minimum(bm * bn / (32 * warps) + _OTHER_REGISTERS, 255)
    shared = np.maximum(stages, 1) * (bm + bn) * bk * size
    resident = np.minimum(_SHARED_BYTES / shared, _REGISTERS / (registers * 32 * warps))
    resident = np.maximum(np.floor(np.minimum(resident, _THREADS / (32 * warps))), 1)
    steps = np.ceil(k / splits / bk)
    busiest = np.ceil(tiles / sms)  # tiles of the SM with most of them
    together = np.minimum(resident, busiest)
    flops = _FLOPS.get(dtype, _USUAL_FLOPS) * np.minimum(1.0, (bm * bn / 128**2) ** 0.25)
    compute = 2 * bm * bn * bk / flops
    load = (bm + bn) * bk * size / _L2_BYTES
    wait = _LATENCY_S / np.maximum(stages - 1, 0.5)
    spilled = np.where(bm * bn / (32 * warps) > 255, 4.0, 1.0)
    step = np.maximum(np.maximum(compute, load) * together, wait) * spilled
    dram = batch * (m * k + k * n + m * n) * size / min(sms * _DRAM_BYTES, _MOST_DRAM_BYTES)
    store = bm * bn * size * np.where(splits > 1, 4.0, 1.0) / _L2_BYTES
    waves = np.ceil(tiles / (resident * sms))
    inside = waves * (_LATENCY_S + steps * step + store * together)
    impossible = np.where(shared > _SHARED_BYTES, np.inf, 1.0)
    return np.asarray((_LAUNCH_S + np.maximum(inside, dram)) * impossible, dtype=np.float64)
