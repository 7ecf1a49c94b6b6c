"""The host's CPU with a budget of threads."""

import platform
import platform as host
from collections.abc import Sequence
from typing import Any

from costmodel.collector.device._runtimes import Kernel, Runtime, TorchRuntime, TvmRuntime
from costmodel.collector.device._worker import DeviceWorker
from costmodel.records._platform import Device
from costmodel.threads import cpu_model, cpu_threads


def describe_cpu() -> Device:
    """The host's CPU; an SM is a hardware thread."""
    import psutil  # type: ignore[import-untyped]  # comes with the tvm extra

    frequency = psutil.cpu_freq()
    return Device(
        name=cpu_model() or platform.processor() or "unknown CPU",
        kind="cpu",
        architecture=platform.machine(),
        sms=cpu_threads(),
        clock_mhz=float(frequency.max or frequency.current) if frequency else 0.0,
    )


class CpuWorker(DeviceWorker):
    """The CPU."""

    physical_device = "cpu"
    errors_stick = False  # one that does break the process, ends it

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The CPU, and the versions that can change its latencies."""
        return describe_cpu(), {**self.software, "python": host.python_version()}

    def open_runtime(self, artifact: str) -> Runtime:
        """TVM, or PyTorch."""
        return TorchRuntime("cpu") if artifact == ".torch.json" else TvmRuntime("cpu")

    def grant(self, sms: int) -> int:
        """The operating system grants what is asked for; nothing is counted."""
        return sms

    def enter(self, sms: int) -> None:
        """Let kernels use ``sms`` threads."""
        self.runtime.use_threads(sms)

    def stopwatch(self, kernel: Kernel, arguments: list[Any]) -> "CpuStopwatch":
        """What times a kernel."""
        return CpuStopwatch(self.runtime, kernel, arguments)


class CpuStopwatch:
    """Times a kernel by its runtime's timer, which runs it back to back after one run that is not timed."""

    def __init__(self, runtime: Runtime, kernel: Kernel, arguments: Sequence[Any]) -> None:
        self._runtime, self._kernel, self._arguments = runtime, kernel, arguments

    def time(self, runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs."""
        return self._runtime.time(self._kernel, self._arguments, runs)

    def close(self) -> None:
        """There is nothing to free."""
