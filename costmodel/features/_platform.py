"""Features of a platform, and of a workload on it: peaks of the granted SMs and the roofline.

The roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) bounds the latency of a workload from below
by ``max(flops / peak, bytes / bandwidth)``. The bandwidth here is the whole device's: how much of it few SMs
can draw is left to be learned.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.records import Device, Platform

PLATFORM_COLUMNS = (
    Column("log2_sms_granted", "log2(1)", "platform", frozenset({"machine", "interval", "sms"})),
    Column("device_share", "1", "platform", frozenset({"interval"})),
    Column("log2_peak_flops", "log2(flop/s)", "platform"),
    Column("log2_bandwidth", "log2(byte/s)", "platform", frozenset({"any_sms", "machine", "interval"})),
    Column("log2_l2", "log2(byte)", "platform", frozenset({"any_sms", "machine"})),
    Column("log2_shared_per_sm", "log2(byte)", "platform", frozenset({"architecture"})),
    Column("log2_registers_per_sm", "log2(1)", "platform", frozenset({"architecture"})),
    Column("log2_max_threads_per_sm", "log2(1)", "platform", frozenset({"architecture"})),
    Column("is_whole_device", "1", "platform", frozenset({"machine"})),
    Column("log2_roofline_s", "log2(s)", "platform", frozenset({"lower_bound"})),
    Column("log2_compute_share_of_roofline", "log2(1)", "platform"),
    Column("log2_bytes_over_l2", "log2(1)", "platform"),
)


@dataclass(frozen=True)
class Limits:
    """What a platform can do, one number a row; NaN where the device's description does not tell.

    Attributes:
        sms: Granted SMs.
        device_sms: SMs of the whole device.
        clock_hz: Highest SM clock.
        flops_per_sm: Peak float32 operations a second of one SM.
        tensor_flops_per_sm: Peak float16 operations a second of its Tensor Cores.
        bandwidth: Bytes a second of device memory.
        l2_bytes: Last-level cache.
        shared_bytes: Shared memory of an SM.
        registers: 32-bit registers of an SM.
        threads: Threads that an SM can hold.
        blocks: Blocks that an SM can hold.
        warp_threads: Threads that share an instruction; 1 on a CPU.
        schedulers: Warps that an SM issues in a clock; 1 on a CPU.
        whole: 1.0 where nothing sets SMs apart.
    """

    sms: FloatArray
    device_sms: FloatArray
    clock_hz: FloatArray
    flops_per_sm: FloatArray
    tensor_flops_per_sm: FloatArray
    bandwidth: FloatArray
    l2_bytes: FloatArray
    shared_bytes: FloatArray
    registers: FloatArray
    threads: FloatArray
    blocks: FloatArray
    warp_threads: FloatArray
    schedulers: FloatArray
    whole: FloatArray


def platform_limits(platforms: list[Platform], row: NDArray[np.intp]) -> Limits:
    """Limits of ``platforms[row]``, each ``(n,)``. Sizes given as 0 are unknown and become NaN."""
    facts = np.array([_facts(platform) for platform in platforms], dtype=np.float64)
    facts = facts.reshape(len(platforms), len(Limits.__dataclass_fields__))
    facts[:, :9][facts[:, :9] == 0.0] = np.nan
    return Limits(*facts[row].T)


def _facts(platform: Platform) -> tuple[float, ...]:
    """The fields of ``Limits``, in order."""
    device = platform.device
    clock_hz = device.clock_mhz * 1e6
    return (
        platform.sms_granted,
        device.sms,
        clock_hz,
        2 * device.fp32_lanes_per_sm * clock_hz,
        device.tensor_flops_per_sm_clock * clock_hz,
        device.bandwidth_gb_s * 1e9,
        device.l2_bytes,
        device.shared_bytes_per_sm,
        device.registers_per_sm,
        device.max_threads_per_sm,
        device.max_blocks_per_sm,
        *_warp(device),
        float(platform.isolation in ("whole", "threads")),
    )


def _warp(device: Device) -> tuple[int, int]:
    """Threads of a warp, and warp schedulers of an SM."""
    if device.kind == "cpu":
        return 1, 1
    if device.kind == "cuda":
        return 32, 4  # since Maxwell
    # AMD: CDNA (gfx9) has four SIMDs and waves of 64, RDNA two and waves of 32.
    return (64, 4) if device.architecture.startswith("gfx9") else (32, 2)


def peak_flops(limits: Limits, is_float16: NDArray[np.bool_]) -> FloatArray:
    """``(n,)`` peak operations a second of the granted SMs, with Tensor Cores where they know the dtype."""
    tensor = np.where(is_float16, limits.tensor_flops_per_sm, np.nan)
    return np.fmax(limits.flops_per_sm, tensor) * limits.sms


def roofline_s(limits: Limits, peak: FloatArray, flops: FloatArray, min_bytes: FloatArray) -> FloatArray:
    """``(n,)`` lower bound on the latency in seconds; arithmetic alone where the bandwidth is unknown."""
    return np.fmax(flops / peak, min_bytes / limits.bandwidth)


def platform_values(
    limits: Limits, peak: FloatArray, flops: FloatArray, min_bytes: FloatArray, bound_s: FloatArray
) -> list[FloatArray]:
    """``(n,)`` values of each of ``PLATFORM_COLUMNS`` for these peaks, flops, bytes and rooflines."""
    return [
        np.log2(limits.sms),
        limits.sms / limits.device_sms,
        np.log2(peak),
        np.log2(limits.bandwidth),
        np.log2(limits.l2_bytes),
        np.log2(limits.shared_bytes),
        np.log2(limits.registers),
        np.log2(limits.threads),
        limits.whole,
        np.log2(bound_s),
        np.log2(flops / peak / bound_s),
        np.log2(min_bytes / limits.l2_bytes),
    ]
