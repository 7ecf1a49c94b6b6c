"""What SMs of a device do at most, what long kernels reach of it, and how long workloads take at least."""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from costmodel.records._device_table import find_shipped_device
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device, check_sms
from costmodel.records._workload import Workload

# An SM, a compute unit or a core of a CPU moves no more bytes a clock to and from its caches.
_CACHE_BYTES_PER_SM_CLOCK = 128
# A device that says one lane does not know how many it has.
UNKNOWN_LANES = 1
# Matrix units compute products of float32 that are rounded to TF32 at half of the rate of float16, and those
# of AMD whole float32 at a quarter at most.
_TF32_RATE, _AMD_FLOAT32_RATE = 1 / 2, 1 / 4


@dataclass(frozen=True)
class PeakRates:
    """Upper bounds for granted SMs, at the highest clock.

    Attributes:
        sms: The granted SMs.
        fp32_tflops: 1e12 float32 operations a second; a multiply-add counts as two.
        tensor_tflops: The same in float16 on Tensor Cores; 0 where there are none, or it is unknown.
        bandwidth_gb_s: 1e9 bytes a second of device memory; 0 where unknown. It is the whole device's:
            setting SMs apart does not divide the memory, and other SMs draw on it too.
    """

    sms: int
    fp32_tflops: float
    tensor_tflops: float
    bandwidth_gb_s: float


def peak_rates(device: Device, sms: int | None = None) -> PeakRates:
    """Peak rates of ``sms`` SMs of a device, of all if None.

    Raises:
        CostModelError: The device does not have as many SMs.

    Example:
        >>> gpu = Device("A GPU", "cuda", "sm_90", sms=132, clock_mhz=1000.0, fp32_lanes_per_sm=128)
        >>> peak_rates(gpu, 100).fp32_tflops
        25.6
    """
    granted = check_sms(device, device.sms if sms is None else sms)
    tera_clocks = granted * device.clock_mhz * 1e6 / 1e12
    return PeakRates(
        sms=granted,
        fp32_tflops=2 * device.fp32_lanes_per_sm * tera_clocks,
        tensor_tflops=device.tensor_flops_per_sm_clock * tera_clocks,
        bandwidth_gb_s=device.bandwidth_gb_s,
    )


class ReachedRates(NamedTuple):
    """What long kernels reach of a datasheet: of the float32 rate of lanes, and of the bandwidth."""

    lanes: float = 0.93
    bandwidth: float = 0.85


# By additions of 0.5 GB with PyTorch 2.1, in the public data of NeuSight (S. Lee et al., ASPLOS 2025). What
# other GPUs reach is assumed.
_BANDWIDTH = {"Tesla T4": 0.76, "Tesla V100-PCIE-32GB": 0.90, "NVIDIA A100-PCIE-40GB": 0.84}
# Operations in float32 for a joule, on a chip of one transistor a mm2: by products on a T4 and an L4
# (experiments/another_gpu/linear_layers.py).
FLOPS_PER_J = 1.206e7


def reached_rates(device: Device) -> ReachedRates:
    """Shares of a device's datasheet, or of that of the real device that a hypothetical one is made of."""
    usual = ReachedRates()
    bandwidth = _BANDWIDTH.get(_real(device).name, usual.bandwidth)
    return ReachedRates(min(usual.lanes, held_share(device)), bandwidth)


def held_share(device: Device, flops_per_j: float = FLOPS_PER_J) -> float:
    """Return the share of its float32 rate that a GPU's board has the power for; 1 where nothing tells.

    A board's clocks fall until its lanes draw what it may. What an operation costs goes with the capacitance
    of what it switches, and so with the width of a transistor, the root of its area, at about the same
    voltage (Dennard et al., IEEE JSSC 9(5), 1974, from whose scaling voltages have parted).

    Args:
        device: The GPU, as the table knows it; of a hypothetical one, the real one that it is made of.
        flops_per_j: Operations for a joule, on a chip of one transistor a mm2.

    Example:
        >>> from costmodel.records import find_device
        >>> held_share(find_device("L4")) < 0.4 and held_share(find_device("H100 SXM")) == 1
        True
    """
    entry = find_shipped_device(_real(device).name)
    if entry is None or not power_is_known(device):
        return 1.0
    held = entry.board_w * flops_per_j * sqrt(entry.transistors_per_mm2)
    return min(1.0, held / (peak_rates(entry.device).fp32_tflops * 1e12))


def power_is_known(device: Device) -> bool:
    """Tell whether the power of a device's board, and how dense its chip is, are known."""
    entry = find_shipped_device(_real(device).name)
    return entry is not None and bool(entry.board_w and entry.transistors_per_mm2)


def _real(device: Device) -> Device:
    return device.of if isinstance(device, HypotheticalDevice) else device


# GeForce GPUs since Turing halve what their Tensor Cores do in float16 if sums are in float32 (NVIDIA Ampere
# GA102 GPU Architecture, table of the RTX 3080 and 3090; NVIDIA Ada GPU Architecture, appendix A).
_HALVED = "GeForce"


def tensor_flops_with_float32_sums(device: Device) -> float:
    """Return float16 operations of an SM's Tensor Cores per clock with float32 sums, as libraries have them.

    Example:
        >>> tensor_flops_with_float32_sums(
        ...     Device("NVIDIA GeForce A GPU", "cuda", "sm_89", 128, 2520.0, tensor_flops_per_sm_clock=1024)
        ... )
        512.0
    """
    return device.tensor_flops_per_sm_clock / (2.0 if _HALVED in device.name else 1.0)


def least_latency_s(
    workload: Workload, device: Device, sms: int | None = None, *, is_tf32: bool = False
) -> float:
    """Return the seconds below which no kernel can compute a workload: a roofline without overheads.

    It is the longer of the operations at the peak rate of the SMs and the bytes at the bandwidth of the
    memory or, if the last-level cache holds them, at that of the caches. It never rises with more SMs. What
    is not known of the workload or the device counts as nothing.

    Args:
        workload: The workload; its operations count as it is defined, so that a Winograd convolution, which
            does fewer, may take less.
        device: The device.
        sms: Number of SMs that the kernel may use. Default: all.
        is_tf32: Whether the kernel may round float32 to TF32.

    Example:
        >>> gpu = Device("A GPU", "cuda", "sm_90", 100, 1000.0, bandwidth_gb_s=1000, fp32_lanes_per_sm=128)
        >>> least_latency_s(Workload.parse("matmul-m8192-n8192-k8192"), gpu)  # 1.1e12 operations, 25.6e12/s
        0.04294967296
    """
    granted = device.sms if sms is None else sms
    clocks_per_s = granted * device.clock_mhz * 1e6
    flops_per_s = _flops_per_clock(workload.dtype, device, is_tf32=is_tf32) * clocks_per_s
    computing = workload.flops / flops_per_s if flops_per_s else 0.0
    in_memory = workload.min_bytes > device.l2_bytes and device.bandwidth_gb_s
    bytes_per_s = device.bandwidth_gb_s * 1e9 if in_memory else _CACHE_BYTES_PER_SM_CLOCK * clocks_per_s
    return max(computing, workload.min_bytes / bytes_per_s if bytes_per_s else 0.0)


def _flops_per_clock(dtype: str, device: Device, *, is_tf32: bool) -> float:
    """Operations of an SM per clock at most; 0 if unknown."""
    if device.fp32_lanes_per_sm <= UNKNOWN_LANES:
        return 0.0
    on_lanes, on_matrix_units = 2.0 * device.fp32_lanes_per_sm, float(device.tensor_flops_per_sm_clock)
    if dtype == "float16":  # lanes do two at once
        return max(2 * on_lanes, on_matrix_units)
    share = _TF32_RATE if is_tf32 else _AMD_FLOAT32_RATE if device.kind == "hip" else 0.0
    return max(on_lanes, on_matrix_units * share)
