"""Ways to tell a kernel's latency on a platform from that on another, without learning anything."""

from collections.abc import Callable, Sequence

import numpy as np

from costmodel.records import Candidate, Platform
from costmodel.records._candidate import KernelLaunch

# Latency, kernels, platform that it is known on, other platform.
Rule = Callable[[np.ndarray, Sequence[Candidate], Platform, Platform], np.ndarray]


def same(latency_s: np.ndarray, kernels: Sequence[Candidate], known: Platform, to: Platform) -> np.ndarray:
    return latency_s


def peak_rates(
    latency_s: np.ndarray, kernels: Sequence[Candidate], known: Platform, to: Platform
) -> np.ndarray:
    return latency_s * _peak(known) / _peak(to)


def bandwidth(
    latency_s: np.ndarray, kernels: Sequence[Candidate], known: Platform, to: Platform
) -> np.ndarray:
    return latency_s * known.device.bandwidth_gb_s / to.device.bandwidth_gb_s


def wave_scaling(
    latency_s: np.ndarray, kernels: Sequence[Candidate], known: Platform, to: Platform
) -> np.ndarray:
    """Habitat's: Yu, Gao, Golikov and Pekhimenko, USENIX ATC 2021, equations 2 and 3, written anew.

    ``(D_o / D_d)^g (W_o / W_d * C_o / C_d)^(1 - g)`` of bandwidth D, blocks of a wave W and clock C; g is
    1 - x / 2R of a kernel whose flops a byte, x, are below the other device's ridge point R, R / 2x above,
    and 1 / 2 where flops or bytes are not known.
    """
    gamma = np.array([_gamma(kernel, to) for kernel in kernels])
    waves = np.array([_wave(kernel, known) / _wave(kernel, to) for kernel in kernels])
    clock = known.device.clock_mhz / to.device.clock_mhz
    memory = known.device.bandwidth_gb_s / to.device.bandwidth_gb_s
    return latency_s * memory**gamma * (waves * clock) ** (1 - gamma)


RULES: dict[str, Rule] = {
    "same latency": same,
    "peak rates": peak_rates,
    "bandwidth": bandwidth,
    "wave scaling (Habitat)": wave_scaling,
}


def _peak(platform: Platform, *, tensor: bool = False) -> float:
    device = platform.device
    rate = device.tensor_flops_per_sm_clock if tensor else 2 * device.fp32_lanes_per_sm
    return platform.sms_granted * device.clock_mhz * 1e6 * rate


def _gamma(kernel: Candidate, to: Platform) -> float:
    flops = kernel.workload.flops or sum(launch.flops for launch in kernel.launches)
    moved = kernel.workload.min_bytes or sum(launch.device_bytes for launch in kernel.launches)
    if not (flops and moved):
        return 0.5
    tensor = kernel.workload.dtype == "float16" and to.device.tensor_flops_per_sm_clock > 0
    ridge = _peak(to, tensor=tensor) / (to.device.bandwidth_gb_s * 1e9)
    intensity = flops / moved
    return 1 - 0.5 * intensity / ridge if intensity < ridge else 0.5 * ridge / intensity


def _wave(kernel: Candidate, platform: Platform) -> float:
    """Blocks that run at once of the largest launch, limited by threads and shared memory."""
    if not kernel.launches:
        return platform.sms_granted
    launch: KernelLaunch = max(kernel.launches, key=lambda each: each.flops)
    device = platform.device
    by_shared = device.shared_bytes_per_sm // (launch.shared_bytes + 1024)
    by_threads = device.max_threads_per_sm // launch.threads_per_block
    return platform.sms_granted * max(1, min(by_shared, by_threads, device.max_blocks_per_sm))
