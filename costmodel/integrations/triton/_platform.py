"""The current device, and how many of its SMs the current stream has."""

import os
from functools import cache
from pathlib import Path
from platform import machine

import triton
from triton.runtime.driver import driver

from costmodel.errors import CostModelError
from costmodel.host import cpu_model, cpu_threads
from costmodel.integrations.triton._driver import cuda_driver, driver_release
from costmodel.reading import exists
from costmodel.records._cuda_device import CUDA_ATTRIBUTES, cuda_device
from costmodel.records._device_table import known_devices
from costmodel.records._platform import Device, Isolation, Platform

_MPS_FOLDER = "/tmp/nvidia-mps"  # noqa: S108 (where MPS has its sockets unless told)


def current_platform() -> Platform:
    """Return Triton's current device, with the SMs of its current stream.

    The green context is that of the stream, or the current one for the default stream. Otherwise a client's
    limit of MPS may apply; otherwise it is the whole device. Under Triton's interpreter it is this CPU. Takes
    microseconds once a device is known.

    Raises:
        CostModelError: If there is no NVIDIA GPU.
    """
    if triton.knobs.runtime.interpret:
        return _cpu()
    cuda = cuda_driver()
    if cuda is None:
        raise CostModelError(
            "The platform can only be detected on NVIDIA GPUs, but there is none here. Give `platform=`, "
            "such as costmodel.records.Platform(device, 'whole', 304, 304)."
        )
    ordinal = driver.active.get_current_device()
    granted = cuda.partition_sms(driver.active.get_current_stream(ordinal))
    if granted is not None:
        return _platform(ordinal, "green_context", granted)
    percentage = _mps_percentage()
    if percentage is not None:
        return _platform(ordinal, "mps", _mps_sms(_device(ordinal).sms, percentage))
    return _platform(ordinal, "whole", None)


def is_capturing() -> bool:
    """Whether a CUDA graph is made of what the current stream is given: nothing can be timed then."""
    cuda = None if triton.knobs.runtime.interpret else cuda_driver()
    if cuda is None:
        return False
    active = driver.active
    return cuda.is_capturing(active.get_current_stream(active.get_current_device()))


def still_works() -> bool:
    """Whether kernels can still be run in this process."""
    cuda = None if triton.knobs.runtime.interpret else cuda_driver()
    return cuda is None or cuda.still_works()


def _mps_percentage() -> float | None:
    """Share of the SMs that MPS grants this process; None unless it is a client with a limit."""
    text = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _MPS_FOLDER))
    if not text or not exists(folder):
        return None
    try:
        percentage = float(text)
    except ValueError:
        return None
    return percentage if 0 < percentage < 100 else None


def _mps_sms(total_sms: int, percentage: float) -> int:
    """SMs that a percentage comes to: MPS rounds down to pairs (25 % of 132 SMs granted 32 on an H100)."""
    return max(2, int(total_sms * percentage / 100) // 2 * 2)


@cache
def _platform(ordinal: int, isolation: Isolation, sms: int | None) -> Platform:
    device = _device(ordinal)
    granted = device.sms if sms is None else sms
    return Platform(device, isolation, granted, granted, software_versions())


@cache
def software_versions() -> dict[str, str]:
    """Versions that can change what a kernel takes."""
    cuda = cuda_driver()
    on_gpu = {"cuda": cuda.cuda_version(), "driver": driver_release()} if cuda else {}
    return {**on_gpu, "triton": triton.__version__}


@cache
def _device(ordinal: int) -> Device:
    """A GPU as its driver describes it; SMs of a known model are those of the table, as MPS may hide some."""
    cuda = cuda_driver()
    assert cuda
    name = cuda.name(ordinal)
    known = {entry.device.name: entry.device.sms for entry in known_devices()}
    sms = known.get(name) or cuda.attribute(ordinal, "MULTIPROCESSOR_COUNT")
    return cuda_device(name, sms, {each: cuda.attribute(ordinal, each) for each in CUDA_ATTRIBUTES})


@cache
def _cpu() -> Platform:
    threads = cpu_threads()
    device = Device(cpu_model() or machine(), "cpu", machine(), threads, 0.0)
    return Platform(device, "whole", threads, threads, software_versions())
