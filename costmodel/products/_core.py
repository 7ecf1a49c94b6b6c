"""How long a tiled product takes by what it has to do: waves of programs, slabs in flight, bytes, sums.

A program computes a tile slab by slab. A slab takes as long as the slowest of its products on the matrix
units, its bytes out of L2, and the latency of memory over the slabs in flight. Programs come in waves over
the granted SMs; all of them together are no faster than device memory. Rates are sustained ones, fitted to
measurements.

Sources: waves and their tail as in Osama et al., "Stream-K" (2023); a wave's reuse in L2 and the choice of
the slowest resource as in AMD's Origami (github.com/ROCm/rocm-libraries, ``shared/origami``), written anew.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.products._product import OPERAND_BYTES, RESULT_BYTES, Kernel, Product


class Rates(NamedTuple):
    """What a GPU sustains on one kind of operands.

    Attributes:
        flops_per_sm: Operations a second of an SM when few compute.
        flops_per_s: Operations a second of all together: power lowers the clock.
        l2_bytes_per_sm: Bytes a second from L2 to an SM.
        l2_bytes_per_s: Bytes a second from L2 to all.
        memory_bytes_per_s: Bytes a second of device memory.
        memory_bytes_per_sm: The most of it that one SM draws.
        latency_s: From the request of a slab until it is there.
        start_s: Of a program, until its first slab is asked for and after its last result.
        launch_s: Of a kernel.
        l2_bytes: Size of the L2.
    """

    flops_per_sm: float
    flops_per_s: float
    l2_bytes_per_sm: float
    l2_bytes_per_s: float
    memory_bytes_per_s: float
    memory_bytes_per_sm: float
    latency_s: float
    start_s: float
    launch_s: float
    l2_bytes: float


_SHARED_BYTES, _REGISTERS, _MOST_WARPS = 232448, 65536, 64  # of an SM of Hopper
_OVERLAPPED = 0.3  # of the ends of a tile, where the next is asked for while one is written
# Tiles of less than 64 rows do not reach Hopper's instructions for groups of warps, and shared memory does
# not feed those that are narrower than 32.
_NARROW, _FULL_WIDTH = 0.6, 32
# Products that are run again find most of what fits into L2 there; of what does not, L2 still spares much.
_RESIDENT, _STAYED, _MOST_AGAIN = 0.7, 0.15, 4
# Tiles of a library on operands of 16 bits, with the slabs that it has in flight and its warps; it takes the
# one that is best for the SMs that it knows of.
_LIBRARY_TILES = (
    (128, 256, 64, 4, 8),
    (256, 128, 64, 4, 8),
    (128, 128, 64, 5, 8),
    (64, 256, 64, 5, 4),
    (128, 64, 64, 6, 4),
    (64, 128, 64, 6, 4),
    (64, 64, 64, 8, 4),
    (64, 32, 128, 6, 4),
    (64, 16, 128, 6, 4),
)
_LIBRARY_SPLITS = (1, 2, 4, 8, 16)
TERMS = (
    "total", "compute", "l2", "latency", "memory", "sums", "waves", "idle", "per_sm", "tiles", "slabs",
    "programs", "padding", "block_m", "block_n", "block_k", "stages", "warps", "splits",
)  # fmt: skip


def time_terms(product: Product, kernels: Sequence[Kernel], sms: int, rates: Rates, whole: int) -> FloatArray:
    """Return what a kernel's time is made of, ``(n, len(TERMS))``.

    A library's kernel is described by the tile that would be best for the SMs that it knows of.

    Args:
        product: The product.
        kernels: Kernels that compute it.
        sms: SMs that are granted.
        rates: Of the device on these operands.
        whole: SMs of the whole device, which a library that is told nothing chooses for.
    """
    columns = np.array([_numbers(kernel) for kernel in kernels], np.float64).reshape(-1, len(_Launch._fields))
    is_library = columns[:, 0] == 0
    tiled, of_library = columns[~is_library], _library_tiles(product.dtype)
    launch = _Launch(*np.concatenate([tiled, of_library, of_library]).T)
    known_sms = np.repeat([float(sms), sms, whole], [len(tiled), len(of_library), len(of_library)])
    own, here, there = np.split(
        _terms(product, launch, known_sms, rates), [len(tiled), len(tiled) + len(of_library)]
    )
    found: FloatArray = np.empty((len(kernels), len(TERMS)))
    found[~is_library] = own
    told, untold = (here[int(np.argmin(seconds))] for seconds in (here[:, 0], there[:, 0]))
    for i in np.flatnonzero(is_library).tolist():
        found[i] = told if kernels[i].kind == "told" else untold
    return found


class _Launch(NamedTuple):
    """Kernels by column, each ``(n,)``, named as in ``Kernel``."""

    block_m: FloatArray
    block_n: FloatArray
    block_k: FloatArray
    stages: FloatArray
    warps: FloatArray
    splits: FloatArray
    programs_per_sm: FloatArray
    group_m: FloatArray
    is_shared: FloatArray  # whether slabs are shared out, not tiles
    overlaps: FloatArray  # whether a tile is written while the next is asked for


def _numbers(kernel: Kernel) -> tuple[int, ...]:
    is_shared = kernel.kind == "stream-k" or kernel.splits == 0
    per_sm = kernel.programs_per_sm or int(is_shared)
    overlaps = kernel.backend != "triton" or kernel.programs_per_sm > 0
    return (*kernel[2:7], max(kernel.splits, 1), per_sm, kernel.group_m, is_shared, overlaps)


@cache
def _library_tiles(dtype: str) -> FloatArray:
    """Return the tiles that a library chooses among, ``(n, len(_Launch._fields))``."""
    width = OPERAND_BYTES[dtype]
    return np.array(
        [
            (m, n, k * 2 // width, stages, warps, splits, 0, 8, 0, 1)
            for m, n, k, stages, warps in _LIBRARY_TILES
            for splits in _LIBRARY_SPLITS
        ],
        np.float64,
    )


def _terms(product: Product, launch: _Launch, sms: FloatArray, rates: Rates) -> FloatArray:
    """Return the terms of kernels whose tiles are known, each on its own number of SMs."""
    waves = _share_out(product, launch, sms)
    active = np.minimum(sms, waves.programs)
    l2_rate = np.minimum(rates.l2_bytes_per_sm, rates.l2_bytes_per_s / active)
    flops_rate = np.minimum(rates.flops_per_sm, rates.flops_per_s / active)
    compute, from_l2, waiting = _slab_seconds(product, launch, rates.latency_s, flops_rate, l2_rate)

    def slab_s(sharing: FloatArray) -> FloatArray:
        found: FloatArray = np.maximum(np.maximum(compute, from_l2) * sharing, waiting)
        return found

    ends, sums = _end_seconds(product, launch, waves, rates, l2_rate)
    each = waves.slabs * slab_s(waves.per_sm) + np.where(launch.overlaps > 0, _OVERLAPPED, 1.0) * ends
    last = waves.slabs * slab_s(waves.per_sm_last) + ends
    walking = (waves.rounds - 1) * each + last + sums
    memory = _memory_bytes(product, launch, waves, sms, rates)
    memory = memory / np.minimum(rates.memory_bytes_per_s, rates.memory_bytes_per_sm * active)
    total = rates.launch_s + np.maximum(walking, memory)
    slabs = waves.rounds * waves.slabs
    found = (
        total, slabs * compute * waves.per_sm, slabs * from_l2 * waves.per_sm, slabs * waiting, memory, sums,
        waves.rounds, waves.idle, waves.per_sm, waves.tiles, waves.slabs, waves.programs, waves.padding,
        *launch[:6],
    )  # fmt: skip
    return np.stack([np.broadcast_to(term, total.shape) for term in found], axis=1)


class _Waves(NamedTuple):
    """How programs come over the SMs, each ``(n,)``."""

    tiles: FloatArray
    programs: FloatArray
    per_sm: FloatArray  # programs on an SM
    per_sm_last: FloatArray  # in the last wave
    rounds: FloatArray
    slabs: FloatArray  # of a program and a round
    idle: FloatArray  # share of the places
    padding: FloatArray  # operations over those that are wanted


def _share_out(product: Product, launch: _Launch, sms: FloatArray) -> _Waves:
    """Return the waves; slabs that are shared out leave nothing idle."""
    tiles_m, tiles_n = np.ceil(product.m / launch.block_m), np.ceil(product.n / launch.block_n)
    tiles, slabs = product.batch * tiles_m * tiles_n, np.ceil(product.k / launch.block_k)
    is_fixed, is_shared = launch.programs_per_sm > 0, launch.is_shared > 0
    programs = np.where(is_fixed, launch.programs_per_sm * sms, tiles * launch.splits)
    staged = launch.stages * (launch.block_m + launch.block_n) * launch.block_k * OPERAND_BYTES[product.dtype]
    registers = launch.block_m * launch.block_n + 64 * 32 * launch.warps
    room = np.minimum(_SHARED_BYTES // staged, _REGISTERS // registers)
    room = np.clip(np.minimum(room, _MOST_WARPS // launch.warps), 1, 8)
    per_sm = np.minimum(np.where(is_fixed, launch.programs_per_sm, room), np.ceil(programs / sms))
    slots = per_sm * sms
    pieces = np.where(is_fixed, tiles, programs)
    rounds = np.where(is_shared, 1.0, np.ceil(pieces / slots))
    left = pieces - (rounds - 1) * slots
    return _Waves(
        tiles=tiles,
        programs=programs,
        per_sm=per_sm,
        per_sm_last=np.where(is_shared, per_sm, np.minimum(per_sm, np.ceil(left / sms))),
        rounds=rounds,
        slabs=np.ceil(np.where(is_shared, tiles * slabs / slots, slabs / launch.splits)),
        idle=np.where(is_shared, 0.0, 1 - pieces / (rounds * slots)),
        padding=launch.block_m * tiles_m * launch.block_n * tiles_n / (product.m * product.n),
    )


def _slab_seconds(
    product: Product, launch: _Launch, latency_s: float, flops_rate: FloatArray, l2_rate: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the seconds of a slab of a program that is alone: products, bytes, latency."""
    share = np.where(launch.block_m < 64, _NARROW, 1.0)
    share = share * np.minimum(1.0, np.minimum(launch.block_m, launch.block_n) / _FULL_WIDTH)
    compute = 2 * launch.block_m * launch.block_n * launch.block_k / (flops_rate * share)
    slab_bytes = (launch.block_m + launch.block_n) * launch.block_k * OPERAND_BYTES[product.dtype]
    return compute, slab_bytes / l2_rate, latency_s / np.maximum(launch.stages - 1, 1)


def _end_seconds(
    product: Product, launch: _Launch, waves: _Waves, rates: Rates, l2_rate: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the seconds of a program around its slabs, and those of adding parts of sums up."""
    results = launch.block_m * launch.block_n / l2_rate * waves.per_sm  # seconds a byte of each
    ends = rates.start_s + rates.latency_s + results * RESULT_BYTES[product.dtype]
    is_split = (launch.splits > 1) | (launch.is_shared > 0)
    parts = 4 * (1 + np.maximum(launch.splits, 2) / 2)
    return ends, np.where(is_split, results * parts + 2 * rates.latency_s, 0.0)


def _memory_bytes(
    product: Product, launch: _Launch, waves: _Waves, sms: FloatArray, rates: Rates
) -> FloatArray:
    """Return the bytes of device memory: operands once, and again as often as they fall out of L2."""
    width = OPERAND_BYTES[product.dtype]
    tiles_m, tiles_n = np.ceil(product.m / launch.block_m), np.ceil(product.n / launch.block_n)
    rows = np.minimum(launch.group_m, tiles_m)
    columns = np.ceil(np.minimum(waves.per_sm * sms, waves.tiles) / rows)
    columns = np.clip(columns, 1.0, tiles_n)
    a, b = (width * product.batch * product.k * size for size in (product.m, product.n))
    if product.min_bytes < _RESIDENT * rates.l2_bytes:
        return np.full_like(tiles_m, _STAYED * product.min_bytes)
    again_a, again_b = np.ceil(tiles_n / columns), np.ceil(tiles_m / rows)
    if a + b < rates.l2_bytes:
        again_a = again_b = np.ones_like(tiles_m)
    results = RESULT_BYTES[product.dtype] * product.batch * product.m * product.n
    moved: FloatArray = a * np.minimum(again_a, _MOST_AGAIN) + b * np.minimum(again_b, _MOST_AGAIN) + results
    return moved
