"""Features of a platform, and of a workload on it: peaks of the granted SMs and the roofline.

The roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) bounds the latency of a workload from below
by ``max(flops / peak, bytes / bandwidth)``. The bandwidth here is the whole device's: how much of it few SMs
can draw is left to be learned.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.columns import Tag
from costmodel.features._feature import Feature, columns_of
from costmodel.records._platform import Device, Platform


@dataclass(frozen=True)
class Limits:
    """Abilities of a platform, one number a row; NaN where the device's description does not tell.

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
    """Limits of ``platforms[row]``, each ``(n,)``."""
    each = [_limits(platform) for platform in platforms]
    values = {field.name: [facts[field.name] for facts in each] for field in fields(Limits)}
    return Limits(**{name: np.array(found, dtype=np.float64)[row] for name, found in values.items()})


def _limits(platform: Platform) -> dict[str, float]:
    """Each field of ``Limits``; sizes and rates given as 0 are unknown."""
    device = platform.device
    clock_hz = device.clock_mhz * 1e6
    warp_threads, schedulers = _warp(device)
    return {
        "sms": _known(platform.sms_granted),
        "device_sms": _known(device.sms),
        "clock_hz": _known(clock_hz),
        "flops_per_sm": _known(2 * device.fp32_lanes_per_sm * clock_hz),
        "tensor_flops_per_sm": _known(device.tensor_flops_per_sm_clock * clock_hz),
        "bandwidth": _known(device.bandwidth_gb_s * 1e9),
        "l2_bytes": _known(device.l2_bytes),
        "shared_bytes": _known(device.shared_bytes_per_sm),
        "registers": _known(device.registers_per_sm),
        "threads": device.max_threads_per_sm,
        "blocks": device.max_blocks_per_sm,
        "warp_threads": warp_threads,
        "schedulers": schedulers,
        "whole": float(platform.isolation in ("whole", "threads")),
    }


def _known(value: float) -> float:
    return value if value else np.nan


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


@dataclass(frozen=True)
class RooflineFacts:
    """Facts that the features of a platform, and of a workload on it, come from; all arrays are ``(n,)``.

    Attributes:
        limits: Of the platforms.
        peak: Peak operations a second of the granted SMs.
        flops: Operations of the workload.
        min_bytes: Its fewest bytes through device memory.
        bound_s: Its roofline in seconds.
    """

    limits: Limits
    peak: FloatArray
    flops: FloatArray
    min_bytes: FloatArray
    bound_s: FloatArray


def _feature(
    name: str, unit: str, formula: Callable[[RooflineFacts], FloatArray], *tags: Tag
) -> Feature[RooflineFacts]:
    return Feature(name, unit, "platform", formula, tags)


PLATFORM_FEATURES: tuple[Feature[RooflineFacts], ...] = (
    _feature("log2_sms_granted", "log2(1)", lambda f: np.log2(f.limits.sms), "sms", "machine", "interval"),
    _feature("device_share", "1", lambda f: f.limits.sms / f.limits.device_sms, "interval"),
    _feature("log2_peak_flops", "log2(flop/s)", lambda f: np.log2(f.peak)),
    _feature(
        "log2_bandwidth",
        "log2(byte/s)",
        lambda f: np.log2(f.limits.bandwidth),
        "any_sms",
        "machine",
        "device",
        "interval",
    ),
    _feature("log2_l2", "log2(byte)", lambda f: np.log2(f.limits.l2_bytes), "any_sms", "machine", "device"),
    _feature("log2_shared_per_sm", "log2(byte)", lambda f: np.log2(f.limits.shared_bytes), "architecture"),
    _feature("log2_registers_per_sm", "log2(1)", lambda f: np.log2(f.limits.registers), "architecture"),
    _feature("log2_max_threads_per_sm", "log2(1)", lambda f: np.log2(f.limits.threads), "architecture"),
    _feature("is_whole_device", "1", lambda f: f.limits.whole, "machine"),
    _feature("log2_roofline_s", "log2(s)", lambda f: np.log2(f.bound_s), "lower_bound"),
    _feature("log2_compute_share_of_roofline", "log2(1)", lambda f: np.log2(f.flops / f.peak / f.bound_s)),
    _feature("log2_bytes_over_l2", "log2(1)", lambda f: np.log2(f.min_bytes / f.limits.l2_bytes)),
)
PLATFORM_COLUMNS = columns_of(PLATFORM_FEATURES)
