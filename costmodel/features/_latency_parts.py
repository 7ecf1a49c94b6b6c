"""What the latency of a kernel is made of, so that one that is known can be carried over to another platform.

A kernel takes a start, the traffic that its L2 cache cannot hold, and the work of its SMs:

``latency = start + max(0, bytes - held * L2) / (efficiency * bandwidth) + work``

The SM with most blocks sets the pace. Of its k blocks it runs b at once; to be busy it needs ``hiding``
warps, and with fewer it waits for latencies that nothing hides:

``work ~ seconds of a block * sqrt(k^2 + (hiding / warps of a block * max(k / b, 1))^2)``

which goes with the blocks of the fullest SM where these fill it, and with its waves where they do not. No
part rises with SMs, clock, bandwidth, cache or rates, all else equal: k does not rise with SMs.

Reference:
    Waves: cuSync, arXiv:2305.13450, section 2. Latency that warps hide: V. Volkov, Understanding latency
    hiding on GPUs, UC Berkeley, 2016.

Notations:
    n: rows. l: most launches of any row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.features._facts import candidate_facts, distinct_objects
from costmodel.features._platform import Limits, platform_limits
from costmodel.features._times import L2_BYTES_PER_CLOCK, occupancy_of
from costmodel.records._candidate import Candidate
from costmodel.records._peak_rates import ReachedRates, reached_rates
from costmodel.records._platform import Platform


@dataclass(frozen=True)
class PartSettings:
    """Settings of all kernels, as measured on SM budgets of an H100 and an H200 (experiments/another_gpu).

    Attributes:
        start_s: Seconds of a launch that nothing of a device changes.
        hiding_warps: Warps that keep an SM busy.
        held_share: Share of the L2 cache that holds inputs from one run to the next.
        memory_efficiency: Share of the peak bandwidth that kernels reach.
    """

    start_s: float = 2e-6
    hiding_warps: float = 8.0
    held_share: float = 0.3
    memory_efficiency: float = 0.8


@dataclass(frozen=True)
class LatencyParts:
    """Parts of latencies; all ``(n,)``.

    Attributes:
        start_s: Seconds that only launches decide.
        memory_s: Seconds of the traffic that the L2 cache does not hold; 0 where bytes or the bandwidth are
            not known.
        work: Work of the SMs, in a unit of the kernel's own: only its ratio between platforms is meant.
    """

    start_s: FloatArray
    memory_s: FloatArray
    work: FloatArray


def latency_parts(
    candidates: Sequence[Candidate],
    platforms: Sequence[Platform],
    settings: PartSettings = PartSettings(),
) -> LatencyParts:
    """Parts of the latencies of ``candidates[i]`` on ``platforms[i]`` in row i.

    Of a kernel of which no launch is known, the work goes with 1 / SMs, and with the geometric mean of what
    the clock and what float32 lanes say, as nothing tells which of these it waits for.
    """
    kernels, row = distinct_objects(candidates)
    launches = candidate_facts(kernels, "estimated").take(row).launches
    limits = _reached_limits(*distinct_objects(platforms))
    known = ~np.isnan(launches["blocks"])
    needed = _bytes(kernels, row, launches)
    traffic = np.maximum(0.0, needed - settings.held_share * np.nan_to_num(limits.l2_bytes))
    return LatencyParts(
        start_s=settings.start_s * np.maximum(known.sum(axis=1), 1),
        memory_s=np.nan_to_num(traffic / (settings.memory_efficiency * limits.bandwidth)),
        work=_work(launches, limits, settings.hiding_warps),
    )


def _reached_limits(platforms: list[Platform], row: NDArray[np.intp]) -> Limits:
    """Limits of ``platforms[row]``, lowered as far as long kernels reach less of them than usual."""
    limits, usual = platform_limits(platforms, row), ReachedRates()
    reached = np.array([reached_rates(platform.device) for platform in platforms])[row] / usual
    return replace(
        limits, flops_per_sm=limits.flops_per_sm * reached[:, 0], bandwidth=limits.bandwidth * reached[:, 1]
    )


def _bytes(kernels: Sequence[Candidate], row: np.ndarray, launches: Mapping[str, FloatArray]) -> FloatArray:
    """``(n,)`` fewest bytes of each row: as its data decide, as its shapes tell, or what it writes."""
    by_data = np.nansum(launches["device_bytes"], axis=1)
    written = np.nansum(launches["global_store_bytes"], axis=1)
    of_workload = np.array([kernel.workload.min_bytes or 0.0 for kernel in kernels], dtype=np.float64)[row]
    said = np.where(of_workload > 0, of_workload, written)
    return np.asarray(np.where(by_data > 0, by_data, said))


def _work(launches: Mapping[str, FloatArray], limits: Limits, hiding_warps: float) -> FloatArray:
    """``(n,)`` seconds of all launches, times what is a kernel's own."""
    occupancy = occupancy_of(launches, limits)
    rounds = np.ceil(launches["blocks"] / limits.sms[:, None])
    warps = np.ceil(launches["threads_per_block"] / limits.warp_threads[:, None])
    unhidden = hiding_warps / warps * np.maximum(rounds / occupancy.blocks_per_sm, 1.0)
    by_launch = _block_s(launches, limits) * np.hypot(rounds, unhidden)
    unknown = np.isnan(launches["blocks"]).all(axis=1)
    return np.asarray(np.where(unknown, _unknown_s(limits) / limits.sms, np.nansum(by_launch, axis=1)))


def _block_s(launches: Mapping[str, FloatArray], limits: Limits) -> FloatArray:
    """``(n, l)`` seconds of one block that has an SM for itself; those of no known work by ``_unknown_s``."""
    by_lanes = (launches["flops"] - launches["tensor_flops"]) / limits.flops_per_sm[:, None]
    tensor_rate = np.fmax(limits.tensor_flops_per_sm, limits.flops_per_sm)[:, None]
    moved = launches["global_load_bytes"] + launches["global_store_bytes"]
    of_cache = moved / (L2_BYTES_PER_CLOCK * limits.clock_hz[:, None])
    total = (by_lanes + launches["tensor_flops"] / tensor_rate + of_cache) / launches["blocks"]
    return np.where(total > 0, total, _unknown_s(limits)[:, None])


def _unknown_s(limits: Limits) -> FloatArray:
    """``(n,)`` seconds of a unit of work of which it is not known whether clocks or lanes decide."""
    return np.asarray(1.0 / np.sqrt(limits.clock_hz * limits.flops_per_sm))
