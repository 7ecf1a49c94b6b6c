"""The current device, and how many of its SMs the current stream has.

The CUDA driver is asked through ctypes; no CUDA package is needed. Source: CUDA Driver API, "Green Contexts",
"Device Management"; NVML API, "System Queries".
"""

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from platform import machine
from typing import Any

import triton
from triton.runtime.driver import driver

from costmodel.errors import CostModelError
from costmodel.reading import exists
from costmodel.records._device_table import CUDA_ATTRIBUTES, cuda_device, read_devices
from costmodel.records._platform import Device, Isolation, Platform
from costmodel.threads import cpu_model, cpu_threads

_SM_RESOURCE = 1  # CU_DEV_RESOURCE_TYPE_SM
# CUdevResource: its type, padding to 96 bytes, then the number of SMs. Versions differ in what follows.
_RESOURCE_BYTES, _SM_COUNT_AT = 1024, 96
_NAME_BYTES = 100
_SUCCESS, _NO_CONTEXT, _OTHER_STREAM_CAPTURES = 0, 201, 906  # CUresult
# CUdevice_attribute, without CU_DEVICE_ATTRIBUTE_
_ATTRIBUTES = {
    "CLOCK_RATE": 13,
    "MULTIPROCESSOR_COUNT": 16,
    "MEMORY_CLOCK_RATE": 36,
    "GLOBAL_MEMORY_BUS_WIDTH": 37,
    "L2_CACHE_SIZE": 38,
    "MAX_THREADS_PER_MULTIPROCESSOR": 39,
    "COMPUTE_CAPABILITY_MAJOR": 75,
    "COMPUTE_CAPABILITY_MINOR": 76,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 81,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 82,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 106,
}
_MPS_FOLDER = "/tmp/nvidia-mps"  # noqa: S108 (where MPS has its sockets unless told)


class CudaDriver:
    """The driver library.

    Raises:
        OSError: There is none.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)

    def name(self, ordinal: int) -> str:
        """Return the name of a device."""
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", name, _NAME_BYTES, self._device(ordinal))
        return name.value.decode()

    def attribute(self, ordinal: int, name: str) -> int:
        """Return an attribute of a device, by its name in the driver API."""
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), _ATTRIBUTES[name], self._device(ordinal))
        return value.value

    def partition_sms(self, stream: int) -> int | None:
        """SMs of the green context that a stream belongs to, or of the current one for the default stream.

        None where there is none, or the driver is older than green contexts of streams (12.5).
        """
        if not hasattr(self._library, "cuStreamGetGreenCtx"):
            return None
        context = ctypes.c_void_p()
        error = self._library.cuStreamGetGreenCtx(ctypes.c_void_p(stream), ctypes.byref(context))
        if error != _NO_CONTEXT:
            self._check("cuStreamGetGreenCtx", error)
        if not context.value:
            return None
        resource = ctypes.create_string_buffer(_RESOURCE_BYTES)
        self._call("cuGreenCtxGetDevResource", context, resource, _SM_RESOURCE)
        return int.from_bytes(resource.raw[_SM_COUNT_AT : _SM_COUNT_AT + 4], "little")

    def is_capturing(self, stream: int) -> bool:
        """Whether a CUDA graph is made of what is launched on a stream, or the stream would disturb one."""
        status = ctypes.c_int()
        error = self._library.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
        if error not in (_NO_CONTEXT, _OTHER_STREAM_CAPTURES):
            self._check("cuStreamIsCapturing", error)
        return status.value != 0 or error == _OTHER_STREAM_CAPTURES

    def still_works(self) -> bool:
        """Tell whether what was launched ended well; behind an illegal access no kernel of a process runs."""
        return bool(self._library.cuCtxSynchronize() in (_SUCCESS, _NO_CONTEXT))

    def cuda_version(self) -> str:
        """Return the latest CUDA that the driver is for, such as ``13.0``."""
        version = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"

    def _device(self, ordinal: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        return device

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._library, name)(*arguments))

    def _check(self, name: str, error: int) -> None:
        if error != _SUCCESS:
            raise OSError(f"{name} of the CUDA driver must succeed, but returned error {error}")


@cache
def cuda_driver() -> CudaDriver | None:
    """Return the driver; None on a machine without one."""
    with suppress(OSError):
        return CudaDriver()
    return None


def driver_release() -> str:
    """Return release of the NVIDIA driver, such as ``580.65.06``; ``unknown`` where NVML does not say it."""
    release = ctypes.create_string_buffer(_NAME_BYTES)
    with suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(release, _NAME_BYTES) == 0:
            return release.value.decode()
    return "unknown"


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
    """Tell whether a CUDA graph is made of what the current stream is given: nothing can be timed then."""
    cuda = None if triton.knobs.runtime.interpret else cuda_driver()
    if cuda is None:
        return False
    active = driver.active
    return cuda.is_capturing(active.get_current_stream(active.get_current_device()))


def still_works() -> bool:
    """Tell whether kernels can still be run in this process."""
    cuda = None if triton.knobs.runtime.interpret else cuda_driver()
    return cuda is None or cuda.still_works()


def _mps_percentage() -> float | None:
    """Return the share of the SMs that MPS grants this process; None unless it is a client with a limit."""
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
    return Platform(device, isolation, granted, granted, read_software_versions())


@cache
def read_software_versions() -> dict[str, str]:
    """Return the versions that can change what a kernel takes."""
    cuda = cuda_driver()
    on_gpu = {"cuda": cuda.cuda_version(), "driver": driver_release()} if cuda else {}
    return {**on_gpu, "triton": triton.__version__}


@cache
def _device(ordinal: int) -> Device:
    """A GPU as its driver describes it; SMs of a known model are those of the table, as MPS may hide some."""
    cuda = cuda_driver()
    assert cuda
    name = cuda.name(ordinal)
    known = {entry.device.name: entry.device.sms for entry in read_devices()}
    sms = known.get(name) or cuda.attribute(ordinal, "MULTIPROCESSOR_COUNT")
    return cuda_device(name, sms, {each: cuda.attribute(ordinal, each) for each in CUDA_ATTRIBUTES})


@cache
def _cpu() -> Platform:
    threads = cpu_threads()
    device = Device(cpu_model() or machine(), "cpu", machine(), threads, 0.0)
    return Platform(device, "whole", threads, threads, read_software_versions())
