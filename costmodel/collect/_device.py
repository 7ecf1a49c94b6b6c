"""What the device worker does: the one process that touches the device. Runs in a worker process."""

import os
import platform as host
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.collect._build import Kind, last_line
from costmodel.collect._graph_timer import graph_evaluator
from costmodel.collect._inputs import agrees, make_arguments
from costmodel.collect._timing import Evaluator, Timing, time_kernel, tvm_evaluator
from costmodel.records import Device, Outcome, Workload


class Timed(msgspec.Struct, frozen=True):
    """What the device worker says of one kernel; the fields are those of ``Measurement``."""

    outcome: Outcome
    latencies_s: tuple[float, ...] = ()
    runs_per_repeat: int = 0
    clock_mhz: float = 0.0
    error: str = ""


class _Worker:
    """State of the device worker: the device, its partitions, and the arrays of the current workload."""

    def __init__(self) -> None:
        import tvm

        self.tvm = tvm
        self._workload = ""
        self._library = ""

    def measure(self, library: Path, workload: Workload, reference: Path, sms: int, timing: Timing) -> Timed:
        """Time the kernels of ``library`` on ``sms`` SMs, after a check of their output at the first load."""
        try:
            self.enter(sms)
            self._prepare(workload)
            checked = self._load(library)
            self.synchronize()
            self._module["main"](*self._arguments)
            self.synchronize()
            if not checked and not agrees(self._arguments[-1].numpy(), np.load(reference)):
                self._library = ""
                return Timed(Outcome.WRONG_RESULT, error="output differs from the unscheduled program's")
            latencies, runs = time_kernel(self.evaluator(), timing)
        except Exception as error:  # noqa: BLE001 (any failure of a kernel is an outcome, not an end)
            self._library = ""
            return Timed(Outcome.LAUNCH_ERROR, error=last_line(error))
        return Timed(Outcome.OK, tuple(latencies), runs, self.clock_mhz())

    def _prepare(self, workload: Workload) -> None:
        """Put the workload's arguments on the device."""
        if workload.name != self._workload:
            self._arrays = make_arguments(workload)
            self._arguments = [self.tvm.runtime.tensor(array, self.device) for array in self._arrays]
            self._workload = workload.name

    def _load(self, library: Path) -> bool:
        """Load ``library``; whether it is the one that was loaded, and checked, last."""
        if self._library == str(library):
            return True
        self._module = self.tvm.runtime.load_module(str(library))
        self._arguments[-1].copyfrom(self._arrays[-1])
        self._library = str(library)
        return False

    device: Any

    def evaluator(self) -> Evaluator:
        """What times the loaded kernel."""
        return tvm_evaluator(self._module, self.device, self._arguments)

    def enter(self, sms: int) -> int:
        """Confine what follows to ``sms`` SMs; the number granted."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for copies and kernels on every stream of the device."""

    def clock_mhz(self) -> float:
        """Clock of the SMs now; 0 where unknown."""
        return 0.0


class _CudaWorker(_Worker):
    """One NVIDIA GPU, partitioned by green contexts."""

    def __init__(self) -> None:
        from costmodel.collect._cuda_device import SmClock
        from costmodel.collect._green_context import GreenContexts

        super().__init__()
        self.device = self.tvm.cuda(0)
        self._contexts = GreenContexts()
        self._clock = SmClock()

    def describe(self) -> tuple[Device, dict[str, str]]:
        from costmodel.collect._cuda_device import describe_cuda

        return describe_cuda(self._contexts.total_sms, self.tvm.__version__)

    def enter(self, sms: int) -> int:
        self._stream, granted = self._contexts.stream(sms)
        self.device.set_raw_stream(self._stream)
        return granted

    def evaluator(self) -> Evaluator:
        kernel = self._module["main"]
        return graph_evaluator(
            self._contexts.driver, self._contexts.call, self._stream, lambda: kernel(*self._arguments)
        )

    def synchronize(self) -> None:
        self._contexts.synchronize()

    def clock_mhz(self) -> float:
        return self._clock.read()


class _CpuWorker(_Worker):
    """The host's CPU, with a budget of threads."""

    def __init__(self) -> None:
        super().__init__()
        self.device = self.tvm.cpu(0)
        self._configure = self.tvm.get_global_func("runtime.config_threadpool")

    def describe(self) -> tuple[Device, dict[str, str]]:
        from costmodel.collect._cpu_device import describe_cpu

        return describe_cpu(), {"tvm": self.tvm.__version__, "python": host.python_version()}

    def enter(self, sms: int) -> int:
        self._configure(1, sms)
        return sms


@cache
def open_device(kind: Kind, threads: int) -> _CudaWorker | _CpuWorker:
    """The device, opened at the first call in a worker's life."""
    os.environ["TVM_NUM_THREADS"] = str(threads)  # read when TVM loads; a budget can only lower it
    return _CudaWorker() if kind == "cuda" else _CpuWorker()


def start_device_worker(kind: Kind, threads: int) -> None:
    """Open the device first in a worker's life, where it is on no kernel's time; a job tells what fails."""
    with suppress(Exception):
        open_device(kind, threads)


def describe_device(kind: Kind, threads: int) -> tuple[Device, dict[str, str]]:
    """The device and its software versions."""
    return open_device(kind, threads).describe()


def grant(kind: Kind, threads: int, sms: int) -> int:
    """SMs that a budget of ``sms`` gives."""
    return open_device(kind, threads).enter(sms)


def measure_kernel(  # noqa: PLR0913, PLR0917 (a worker's job says everything it needs)
    kind: Kind, threads: int, library: Path, workload: Workload, reference: Path, sms: int, timing: Timing
) -> Timed:
    """Time one kernel; see ``Timed``."""
    return open_device(kind, threads).measure(library, workload, reference, sms, timing)
