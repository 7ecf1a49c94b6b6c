"""The host's CPU with a budget of threads. Runs in a worker process."""

import platform as host
from typing import Any

from costmodel.collect.device._cpu_device import describe_cpu
from costmodel.collect.device._worker import DeviceWorker
from costmodel.records import Device


class CpuWorker(DeviceWorker):
    """The CPU."""

    errors_stick = False  # one that does break the process, ends it

    def __init__(self) -> None:
        super().__init__()
        self.device = self.tvm.cpu(0)
        self._configure = self.tvm.get_global_func("runtime.config_threadpool")

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The CPU, and the versions that can change its latencies."""
        return describe_cpu(), {"tvm": self.tvm.__version__, "python": host.python_version()}

    def grant(self, sms: int) -> int:
        """The operating system grants what is asked for; nothing is counted."""
        return sms

    def enter(self, sms: int) -> None:
        """Let kernels use ``sms`` threads."""
        self._configure(1, sms)

    def stopwatch(self, module: Any, arguments: list[Any]) -> "CpuStopwatch":
        """What times a module."""
        return CpuStopwatch(module, self.device, arguments)


class CpuStopwatch:
    """Times a module by TVM's own timer, which runs it back to back after one run that does not count."""

    def __init__(self, module: Any, device: Any, arguments: list[Any]) -> None:
        self._module, self._device, self._arguments = module, device, arguments

    def time(self, runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs."""
        timer = self._module.time_evaluator("main", self._device, number=runs, repeat=1)
        return float(timer(*self._arguments).results[0])

    def close(self) -> None:
        """There is nothing to free."""
