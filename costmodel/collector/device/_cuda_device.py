"""Queries of the CUDA driver and NVML for a GPU."""

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any

from cuda.bindings import driver

from costmodel.records._device_table import CUDA_ATTRIBUTES, cuda_device
from costmodel.records._identity import content_id
from costmodel.records._measurement import DeviceState
from costmodel.records._platform import Device

# Bits of nvmlDeviceGetCurrentClocksEventReasons (NVML API, "nvmlClocksEventReasons") that say that the clock
# is held below what it could be. Left out: gpu_idle (nothing ran, so nothing was slowed down), and
# applications_clocks_setting and display_clock_setting (someone chose that clock; it does not come and go).
THROTTLE_REASONS = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}


def pci_bus_id(driver: Any, call: Callable[[Any], Any]) -> str:
    """PCI bus id of the current context's device.

    NVML ignores CUDA_VISIBLE_DEVICES and orders devices in its own way; this id means the same to both.
    """
    padded: bytes = call(driver.cuDeviceGetPCIBusId(32, call(driver.cuCtxGetDevice())))
    return padded.split(b"\0")[0].decode()


def open_nvml() -> Any:
    """The module ``pynvml``, initialised; raises where it is absent or unusable."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


class StateReader:
    """Reads the sensors of one GPU."""

    def __init__(self, bus_id: str, open_module: Callable[[], Any] = open_nvml) -> None:
        """Find the GPU.

        Args:
            bus_id: Its PCI bus id; see ``pci_bus_id``.
            open_module: Gives the module ``pynvml``, initialised, or raises.
        """
        try:
            self._nvml = open_module()
            self._handle = self._nvml.nvmlDeviceGetHandleByPciBusId(bus_id)
        except Exception:  # noqa: BLE001 (absent or unusable: states are unknown, measurements are not affected)
            self._handle = None

    def read(self) -> DeviceState | None:
        """The sensors now, 0 and empty where one of them says nothing; None without NVML.

        Power is the mean of the last second on most GPUs since Ampere (NVML API, nvmlDeviceGetPowerUsage).
        """
        if self._handle is None:
            return None
        nvml = self._nvml
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        return DeviceState(
            clock_mhz=float(self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=float(self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM)),
            temperature_c=float(self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)),
            power_w=self._ask("nvmlDeviceGetPowerUsage") / 1e3,
            throttle_reasons=tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        )

    def board_id(self) -> str:
        """8 hexadecimal digits that tell this board from others without its UUID; empty where unknown."""
        uuid = self._ask("nvmlDeviceGetUUID") if self._handle is not None else ""
        return content_id(uuid)[:8] if uuid else ""

    def _ask(self, query: str, *arguments: int) -> Any:
        """What NVML answers about the GPU; 0 where it refuses."""
        try:
            return getattr(self._nvml, query)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return 0


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
