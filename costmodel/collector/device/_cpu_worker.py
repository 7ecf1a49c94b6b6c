"""The host's CPU with a budget of threads."""

import platform as host
from typing import Any

from costmodel.collector.device._cpu_device import describe_cpu
from costmodel.collector.device._tvm_runtime import TvmRuntime
from costmodel.collector.device._worker import DeviceWorker
from costmodel.records import Device


class CpuWorker(DeviceWorker):
    """The CPU."""

    errors_stick = False  # one that does break the process, ends it

    def __init__(self) -> None:
        super().__init__(TvmRuntime("cpu"))

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The CPU, and the versions that can change its latencies."""
        return describe_cpu(), {"tvm": self.runtime.version, "python": host.python_version()}

    def grant(self, sms: int) -> int:
        """The operating system grants what is asked for; nothing is counted."""
        return sms

    def enter(self, sms: int) -> None:
        """Let kernels use ``sms`` threads."""
        self.runtime.use_threads(sms)

    def stopwatch(self, module: Any, arguments: list[Any]) -> "CpuStopwatch":
        """What times a module."""
        return CpuStopwatch(self.runtime, module, arguments)


class CpuStopwatch:
    """Times a module by TVM's own timer, which runs it back to back after one run that does not count."""

    def __init__(self, runtime: TvmRuntime, module: Any, arguments: list[Any]) -> None:
        self._runtime, self._module, self._arguments = runtime, module, arguments

    def time(self, runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs."""
        return self._runtime.time(self._module, self._arguments, runs)

    def close(self) -> None:
        """There is nothing to free."""
