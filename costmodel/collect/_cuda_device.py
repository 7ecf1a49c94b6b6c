"""What the CUDA driver and NVML say of a GPU. Runs in the device worker."""

import importlib.metadata
from typing import Any

from cuda.bindings import driver

from costmodel.records import Device

# float32 lanes of an SM by compute capability: CUDA C++ Programming Guide, "Arithmetic Instructions".
_FP32_LANES = {
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (12, 0): 128,
}


# float16 operations of an SM's Tensor Cores in a clock, by compute capability, on dense matrices: NVIDIA's
# white papers on Volta, Turing, Ampere (GA100 and GA10x), Ada and Hopper.
_TENSOR_FLOPS = {(7, 0): 1024, (7, 5): 1024, (8, 0): 2048, (8, 6): 1024, (8, 9): 1024, (9, 0): 4096}


def describe_cuda(total_sms: int, tvm_version: str) -> tuple[Device, dict[str, str]]:
    """The first visible GPU, and the versions that can change its latencies."""
    _, handle = driver.cuDeviceGet(0)
    _, name = driver.cuDeviceGetName(100, handle)
    major, minor = _attribute("COMPUTE_CAPABILITY_MAJOR"), _attribute("COMPUTE_CAPABILITY_MINOR")
    # Two transfers a clock: the attributes give the memory's clock (kHz) and bus width (bits).
    bandwidth = 2 * _attribute("MEMORY_CLOCK_RATE") * 1e3 * _attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8 / 1e9
    device = Device(
        name=name.split(b"\0")[0].decode(),
        kind="cuda",
        architecture=f"sm_{major}{minor}",
        sms=total_sms,
        clock_mhz=_attribute("CLOCK_RATE") / 1e3,
        bandwidth_gb_s=round(bandwidth, 1),
        l2_bytes=_attribute("L2_CACHE_SIZE"),
        shared_bytes_per_sm=_attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_per_sm=_attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        max_threads_per_sm=_attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        max_blocks_per_sm=_attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        fp32_lanes_per_sm=_FP32_LANES.get((major, minor), 128),
        tensor_flops_per_sm_clock=_TENSOR_FLOPS.get((major, minor), 0),
    )
    _, cuda_version = driver.cuDriverGetVersion()
    software = {
        "cuda": f"{cuda_version // 1000}.{cuda_version % 1000 // 10}",
        "driver": _driver_version(),
        "tvm": tvm_version,
        "cuda-bindings": importlib.metadata.version("cuda-bindings"),
    }
    return device, software


def _attribute(name: str) -> int:
    """An attribute of the first device, by its name in the driver API."""
    key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    _, value = driver.cuDeviceGetAttribute(key, 0)
    return int(value)


def _driver_version() -> str:
    nvml = _open_nvml()
    return str(nvml.nvmlSystemGetDriverVersion()) if nvml else "unknown"


def _open_nvml() -> Any:
    """The NVML module, ready; None where it cannot be opened."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 (absent or unusable, it takes only the clock and the driver's version away)
        return None
    return pynvml


class SmClock:
    """Reads the SM clock through NVML, where there is one."""

    def __init__(self) -> None:
        self._nvml = _open_nvml()
        self._handle = self._nvml.nvmlDeviceGetHandleByIndex(0) if self._nvml else None

    def read(self) -> float:
        """Clock in MHz now; 0 where NVML is absent."""
        if self._nvml is None:
            return 0.0
        return float(self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))
