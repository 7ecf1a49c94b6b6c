"""Platforms: a device, the SMs granted on it, and its software."""

import re
from functools import cached_property
from typing import Literal, get_args

import msgspec

from costmodel.arguments import MOST_COUNT, check_number, check_text, check_whole
from costmodel.errors import CostModelError, InvalidArgumentError
from costmodel.records._identity import content_id

DeviceKind = Literal["cuda", "hip", "xpu", "cpu"]
TargetKind = Literal["cuda", "cpu"]  # what kernels are made for and measured on here
Isolation = Literal["whole", "green_context", "mps", "threads"]

# Numbers of a device, by their type.
_WHOLE = (
    *("sms", "l2_bytes", "shared_bytes_per_sm", "registers_per_sm", "max_threads_per_sm"),
    *("max_blocks_per_sm", "fp32_lanes_per_sm", "tensor_flops_per_sm_clock"),
)
_RATES = ("clock_mhz", "bandwidth_gb_s")
_RATES_OF_ANY = 1e-3, 1e9  # below and above, latencies are no times of anything


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device model, as its driver describes it.

    An SM stands for a compute unit of an AMD GPU and a hardware thread of a CPU.

    Attributes:
        name: Name reported by the driver.
        kind: Runtime that runs kernels on the device.
        architecture: Architecture such as ``sm_90``, or the CPU's instruction set; empty if unknown.
        sms: Number of streaming multiprocessors of the whole device; 0 if unknown.
        clock_mhz: Highest clock of an SM, in MHz; 0 if unknown.
        bandwidth_gb_s: Peak bandwidth of device memory, in 1e9 bytes per second; 0 if unknown.
        l2_bytes: Size of the last-level cache, in bytes; 0 if unknown.
        shared_bytes_per_sm: Shared memory per SM, in bytes.
        registers_per_sm: Number of 32-bit registers per SM.
        max_threads_per_sm: Maximum number of resident threads per SM.
        max_blocks_per_sm: Maximum number of resident blocks per SM.
        fp32_lanes_per_sm: Number of float32 multiply-adds that an SM can start per clock.
        tensor_flops_per_sm_clock: float16 operations of an SM's Tensor Cores per clock, on dense matrices; 0
            if there are none, or if unknown.
    """

    name: str
    kind: DeviceKind
    architecture: str
    sms: int
    clock_mhz: float
    bandwidth_gb_s: float = 0.0
    l2_bytes: int = 0
    shared_bytes_per_sm: int = 0
    registers_per_sm: int = 0
    max_threads_per_sm: int = 1
    max_blocks_per_sm: int = 1
    fp32_lanes_per_sm: int = 1
    tensor_flops_per_sm_clock: int = 0

    def __post_init__(self) -> None:
        """Check names and numbers, also when a file is decoded.

        Raises:
            InvalidArgumentError: One is of another type, negative, or too large.
        """
        check_text("name of a device", self.name)
        if self.kind not in get_args(DeviceKind):
            raise InvalidArgumentError(f"kind must be one of {get_args(DeviceKind)}, but got {self.kind!r}.")
        for name in _WHOLE:
            check_whole(name, getattr(self, name), 0, 2**53)
        for name in _RATES:
            if (rate := getattr(self, name)) != 0:
                check_number(name, rate, *_RATES_OF_ANY)


class Platform(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A device, the SMs granted on it, the isolation mechanism, and software versions.

    Attributes:
        device: The device model.
        isolation: Mechanism that sets the SMs apart.
        sms_requested: Number of SMs requested.
        sms_granted: Number of SMs that the driver granted. Learners use this number.
        software: Versions that can affect latency, such as those of the driver, CUDA and TVM.
    """

    device: Device
    isolation: Isolation
    sms_requested: int
    sms_granted: int
    software: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Check the SMs, also when a file is decoded.

        Raises:
            InvalidArgumentError: They are no whole numbers from 0.
        """
        check_whole("sms_requested", self.sms_requested)
        check_whole("sms_granted", self.sms_granted)

    @cached_property
    def name(self) -> str:
        """Readable name without software versions, such as ``NVIDIA H100 80GB HBM3/green_context/32``."""
        return f"{self.device.name}/{self.isolation}/{self.sms_granted}"

    @cached_property
    def platform_id(self) -> str:
        """Content address of device name, isolation and granted SMs, without software versions."""
        return content_id(self.device.name, self.isolation, self.sms_granted)


def compute_capability(architecture: str) -> int:
    """Return the compute capability that names an architecture: 90 of ``sm_90`` and ``sm_90a``, else 0."""
    named = re.fullmatch(r"sm_([0-9]+)[a-z]?", architecture)
    return int(named[1]) if named else 0


def check_compute_capability(architecture: str) -> int:
    """Return the compute capability of an architecture that something is compiled for.

    Raises:
        CostModelError: Its name tells none.
    """
    if capability := compute_capability(architecture):
        return capability
    raise CostModelError(f"What is compiled for must be named as sm_90 is, but got {architecture!r}.")


def find_target_kind(device: Device) -> TargetKind | None:
    """Return what kernels are made for that run on a device; None where none are made here."""
    return device.kind if device.kind == "cuda" or device.kind == "cpu" else None  # noqa: PLR1714 (types)


def check_sms(device: Device, sms: object, *, remedy: str = "") -> int:
    """Check that a device has so many SMs; of one with an unknown number, that there may be so many.

    Args:
        device: The device.
        sms: Number of SMs (threads on a CPU).
        remedy: What to do otherwise, for the message.

    Raises:
        CostModelError: It does not have as many.
    """
    try:
        return check_whole(f"sms of {device.name}", sms, 1, device.sms or MOST_COUNT)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error} {remedy}".rstrip()) from None


def part_of(device: Device, sms: int | None = None) -> Platform:
    """Make the platform of a number of SMs of a device, without software versions.

    Args:
        device: The device.
        sms: Number of SMs of a green context (threads on a CPU). Default: the whole device, with 0 SMs if
            their number is unknown.

    Raises:
        CostModelError: The device does not have this many SMs.

    Example:
        >>> part_of(Device("NVIDIA H200", "cuda", "sm_90", 132, 1980.0), 32).name
        'NVIDIA H200/green_context/32'
    """
    granted = device.sms
    if sms is not None and sms != device.sms:
        granted = check_sms(device, sms)
    part: Isolation = "threads" if device.kind == "cpu" else "green_context"
    return Platform(device, "whole" if granted == device.sms else part, granted, granted)
