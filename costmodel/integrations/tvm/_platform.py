"""Where a model is asked about, and a runner measures."""

from costmodel.collect import CpuRunner, CudaRunner
from costmodel.errors import CostModelError
from costmodel.records import Platform, find_device
from costmodel.spaces import TargetKind

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}


def local_platform(kind: TargetKind, sms: int | None = None) -> Platform:
    """The platform that ``sms`` SMs of this machine's device are. Opens the device in a process: seconds.

    Args:
        kind: Kind of device.
        sms: SMs, threads on a CPU; the whole device unless given.

    Raises:
        CostModelError: There is no such device, or it cannot grant that many.
    """
    try:
        runner = RUNNERS[kind](build_workers=1)
    except CostModelError as error:
        raise CostModelError(
            f"The platform must be known, but no {kind} device can be opened here. Name one: "
            f"platform=named_platform('NVIDIA H100 80GB HBM3', sms=32). ({error})"
        ) from error
    with runner:
        return runner.platform(sms)


def named_platform(device: str, sms: int | None = None) -> Platform:
    """A platform on a device that need not be here.

    Args:
        device: Name of a device; ``costmodel devices`` lists them.
        sms: SMs of a green context; the whole device unless given.

    Raises:
        CostModelError: No device has this name, or it has fewer SMs.
    """
    found = find_device(device)
    granted = found.sms if sms is None else sms
    if not 1 <= granted <= found.sms:
        raise CostModelError(f"sms must be from 1 to the {found.sms} of {found.name}, but got {granted}.")
    return Platform(found, "whole" if granted == found.sms else "green_context", granted, granted)
