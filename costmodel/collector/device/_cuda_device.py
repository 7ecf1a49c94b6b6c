"""What the CUDA driver and NVML say of a GPU."""

import importlib.metadata
from collections.abc import Mapping

from cuda.bindings import driver

from costmodel.collector.device._state import open_nvml
from costmodel.records import Device, known_architectures

# float32 lanes of an SM of an architecture that the table of devices lacks: those of each since Ampere but
# the A100's.
_USUAL_LANES = 128


def describe_cuda(total_sms: int, software: Mapping[str, str]) -> tuple[Device, dict[str, str]]:
    """The first visible GPU, and the versions that can change its latencies.

    Args:
        total_sms: SMs of the whole device.
        software: Versions of what runs kernels on it.
    """
    _, handle = driver.cuDeviceGet(0)
    _, name = driver.cuDeviceGetName(100, handle)
    major, minor = _attribute("COMPUTE_CAPABILITY_MAJOR"), _attribute("COMPUTE_CAPABILITY_MINOR")
    # Two transfers a clock: the attributes give the memory's clock (kHz) and bus width (bits).
    bandwidth = 2 * _attribute("MEMORY_CLOCK_RATE") * 1e3 * _attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8 / 1e9
    name_of_architecture = f"sm_{major}{minor}"
    architecture = known_architectures().get(name_of_architecture)
    device = Device(
        name=name.split(b"\0")[0].decode(),
        kind="cuda",
        architecture=name_of_architecture,
        sms=total_sms,
        clock_mhz=_attribute("CLOCK_RATE") / 1e3,
        bandwidth_gb_s=round(bandwidth, 1),
        l2_bytes=_attribute("L2_CACHE_SIZE"),
        shared_bytes_per_sm=_attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_per_sm=_attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        max_threads_per_sm=_attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        max_blocks_per_sm=_attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        fp32_lanes_per_sm=architecture.fp32_lanes_per_sm if architecture else _USUAL_LANES,
        tensor_flops_per_sm_clock=architecture.tensor_flops_per_sm_clock if architecture else 0,
    )
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
