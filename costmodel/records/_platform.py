"""A platform: a device, the part of it that is granted, and the software on it."""

from functools import cached_property
from typing import Literal

import msgspec

from costmodel.errors import CostModelError
from costmodel.records._identity import content_id

DeviceKind = Literal["cuda", "hip", "cpu"]
TargetKind = Literal["cuda", "cpu"]  # what kernels are made for and measured on here
Isolation = Literal["whole", "green_context", "mps", "threads"]


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device model, by what its driver says of it.

    An SM is a compute unit on an AMD GPU, a hardware thread on a CPU.

    Attributes:
        name: Name that the driver gives.
        kind: Runtime that runs kernels on it.
        architecture: Such as ``sm_90``, or the CPU's instruction set; empty where unknown.
        sms: Streaming multiprocessors of the whole device; 0 where unknown.
        clock_mhz: Highest clock of an SM; 0 where unknown.
        bandwidth_gb_s: Peak bandwidth of device memory, 1e9 bytes a second; 0 where unknown.
        l2_bytes: Last-level cache; 0 where unknown.
        shared_bytes_per_sm: Shared memory of an SM.
        registers_per_sm: 32-bit registers of an SM.
        max_threads_per_sm: Resident threads of an SM.
        max_blocks_per_sm: Resident blocks of an SM.
        fp32_lanes_per_sm: float32 multiply-adds that an SM can start in a clock.
        tensor_flops_per_sm_clock: float16 operations that the Tensor Cores of an SM do in a clock on dense
            matrices; 0 where there are none, or it is unknown.
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


class Platform(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A device, the SMs granted on it, how they were set apart, and software versions.

    Attributes:
        device: The device model.
        isolation: How the SMs were set apart.
        sms_requested: SMs asked for.
        sms_granted: SMs that the driver gave, which is what learners see.
        software: Versions that can change a latency, such as driver, CUDA and TVM.
    """

    device: Device
    isolation: Isolation
    sms_requested: int
    sms_granted: int
    software: dict[str, str] = {}

    @cached_property
    def name(self) -> str:
        """Readable name without software versions, such as ``NVIDIA H100 80GB HBM3/green_context/32``."""
        return f"{self.device.name}/{self.isolation}/{self.sms_granted}"

    @cached_property
    def platform_id(self) -> str:
        """Content address of device name, isolation and granted SMs; software versions do not enter."""
        return content_id(self.device.name, self.isolation, self.sms_granted)


def part_of(device: Device, sms: int | None = None) -> Platform:
    """So many SMs of a device, of which no software is known.

    Args:
        device: The device.
        sms: SMs of a green context, threads on a CPU; the whole device unless given, which has 0 where their
            number is unknown.

    Raises:
        CostModelError: The device does not have that many.

    Example:
        >>> part_of(Device("NVIDIA H200", "cuda", "sm_90", 132, 1980.0), 32).name
        'NVIDIA H200/green_context/32'
    """
    granted = device.sms if sms is None else sms
    if granted != device.sms and not 1 <= granted <= (device.sms or granted):
        most = f"from 1 to the {device.sms} of" if device.sms else "at least 1 on"
        raise CostModelError(f"sms must be {most} {device.name}, but got {granted}.")
    part: Isolation = "threads" if device.kind == "cpu" else "green_context"
    return Platform(device, "whole" if granted == device.sms else part, granted, granted)
