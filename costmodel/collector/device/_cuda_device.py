"""Queries of the CUDA driver and NVML for a GPU."""

import importlib.metadata
from collections.abc import Mapping

from cuda.bindings import driver

from costmodel.collector.device._state import open_nvml
from costmodel.records._cuda_device import CUDA_ATTRIBUTES, cuda_device
from costmodel.records._platform import Device


def describe_cuda(total_sms: int, software: Mapping[str, str]) -> tuple[Device, dict[str, str]]:
    """The first visible GPU, and the versions that can change its latencies.

    Args:
        total_sms: SMs of the whole device.
        software: Versions of what runs kernels on it.
    """
    _, handle = driver.cuDeviceGet(0)
    _, name = driver.cuDeviceGetName(100, handle)
    attributes = {each: _attribute(each) for each in CUDA_ATTRIBUTES}
    device = cuda_device(name.split(b"\0")[0].decode(), total_sms, attributes)
    _, cuda_version = driver.cuDriverGetVersion()
    versions = {
        "cuda": f"{cuda_version // 1000}.{cuda_version % 1000 // 10}",
        "driver": _driver_version(),
        **software,
        "cuda-bindings": importlib.metadata.version("cuda-bindings"),
    }
    return device, versions


def _attribute(name: str) -> int:
    """An attribute of the first device, by its name in the driver API."""
    key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    _, value = driver.cuDeviceGetAttribute(key, 0)
    return int(value)


def _driver_version() -> str:
    try:
        return str(open_nvml().nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 (absent or unusable, it takes only the driver's version away)
        return "unknown"
