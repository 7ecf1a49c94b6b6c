"""What the CUDA and the CPU worker share."""

from collections.abc import Mapping
from typing import Any, Protocol

from costmodel.collector.device._job import (
    Argument,
    KernelFaultError,
    KernelJob,
    ModuleJob,
    Timed,
    TimedKernels,
)
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._timing import Repeats, Stopwatch, Timing, time_kernels
from costmodel.collector.device._tvm_runtime import TvmRuntime
from costmodel.collector.device._workload_data import KeptData, WorkloadData
from costmodel.errors import last_line
from costmodel.records import Device, DeviceState, Outcome


class ClosableStopwatch(Stopwatch, Protocol):
    """A stopwatch that holds something of the device."""

    def close(self) -> None:
        """Free it."""
        ...


class DeviceWorker:
    """State of a device worker: the device, its partitions, and the arrays of the current workload.

    Attributes:
        runtime: What loads and launches kernels.
        board: Short id of the physical board; empty where unknown.
        data: Inputs and right output of the current workload.
        errors_stick: Whether the device may be of no more use to a process in which a kernel failed.
    """

    data: WorkloadData
    board = ""
    errors_stick = True

    def __init__(self, runtime: TvmRuntime) -> None:
        self.runtime = runtime
        self._kept = KeptData()
        self._random: tuple[tuple[Argument, ...], list[Any]] = (), []
        self._pace = Pace(self.state)

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The device model, and the versions that can change its latencies."""
        raise NotImplementedError

    def grant(self, sms: int) -> int:
        """The number of SMs that a budget of ``sms`` gives, counted on the device where it can be.

        Raises:
            CostModelError: The device runs on another number than it granted.
            RuntimeError: The driver refuses.
        """
        raise NotImplementedError

    def time(self, job: KernelJob) -> TimedKernels:
        """Time the kernels of a job, each after a check of its output on the most SMs that the job names.

        Raises:
            KernelFaultError: A kernel fails.
        """
        try:
            self._prepare(job)
            self.enter(max(job.libraries))
            paths = {path.stem: path for libraries in job.libraries.values() for path in libraries}
            modules = {id_: self.runtime.load(path) for id_, path in paths.items()}
            right = {id_: module for id_, module in modules.items() if self._computes(module)}
            return {sms: self._time_on(sms, job, right) for sms in job.libraries}
        except Exception as error:  # noqa: BLE001 (whatever a kernel does is an outcome)
            raise KernelFaultError(last_line(error)) from None

    def time_module(self, job: ModuleJob) -> Timed:
        """Time one module of any kind, whose output nobody checks.

        Raises:
            KernelFaultError: It fails on a device whose state is then unknown.
        """
        try:
            arguments = self._random_arrays(job.arguments)
            self.enter(job.sms)
            module = self.runtime.load(job.library)
            self.synchronize()
            module["main"](*arguments)  # a kernel that faults does so here
            self.synchronize()
            return self._time_alone({"": module}, job.timing, arguments)[""]
        except Exception as error:  # noqa: BLE001 (whatever a kernel does is an outcome)
            if self.errors_stick:
                raise KernelFaultError(last_line(error)) from None
            return Timed(Outcome.LAUNCH_ERROR, error=last_line(error))

    def enter(self, sms: int) -> None:
        """Confine what follows to ``sms`` SMs."""
        raise NotImplementedError

    def stopwatch(self, module: Any, arguments: list[Any]) -> ClosableStopwatch:
        """What times a loaded module with these arguments on the SMs that are entered."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for copies and kernels on every stream of the device."""

    def state(self) -> DeviceState:
        """What the sensors say now."""
        return DeviceState()

    def time_together(self, modules: Mapping[str, Any], sms: int, job: KernelJob) -> dict[str, Timed]:
        """Time modules, by candidate id, on ``job.partitions`` partitions of ``sms`` SMs at once."""
        raise NotImplementedError

    def _prepare(self, job: KernelJob) -> None:
        """Put the workload's arguments on the device."""
        self.data = self._kept.get(
            job.workload, lambda: WorkloadData(job.workload, job.reference, self.runtime.copies)
        )

    def _random_arrays(self, arguments: tuple[Argument, ...]) -> list[Any]:
        """Arguments of a module, the same as before where they are alike: a task's kernels share memory."""
        if self._random[0] != arguments:
            self._random = arguments, self.runtime.random_arrays(arguments)
        return self._random[1]

    def _computes(self, module: Any) -> bool:
        """Whether a kernel writes the right output over one that is full of NaN."""
        self.data.poison()
        self.synchronize()
        module["main"](*self.data.arguments)
        self.synchronize()
        return self.data.is_right

    def _time_on(self, sms: int, job: KernelJob, right: Mapping[str, Any]) -> dict[str, Timed]:
        """Time those of a job's kernels for ``sms`` SMs that are right; by candidate id, as is ``right``."""
        ids = [path.stem for path in job.libraries[sms]]
        modules = {id_: right[id_] for id_ in ids if id_ in right}
        if job.partitions > 1:
            timed = self.time_together(modules, sms, job)
        else:
            self.enter(sms)
            timed = self._time_alone(modules, job.timing, self.data.arguments)
        wrong = Timed(
            Outcome.WRONG_RESULT, board=self.board, error="output differs from the unscheduled program's"
        )
        return {id_: timed.get(id_, wrong) for id_ in ids}

    def _time_alone(
        self, modules: Mapping[str, Any], timing: Timing, arguments: list[Any]
    ) -> dict[str, Timed]:
        """Time modules that take the same arguments side by side."""
        watches = {name: self.stopwatch(module, arguments) for name, module in modules.items()}
        timed = time_kernels(watches, timing, self._pace)
        for watch in watches.values():
            watch.close()
        return {name: self.timed(repeats) for name, repeats in timed.items()}

    def timed(self, repeats: Repeats, co_runners: tuple[str, ...] = ()) -> Timed:
        """What repeats say of a kernel that works."""
        r = repeats
        return Timed(Outcome.OK, r.latencies_s, r.runs, r.before, r.after, r.attempts, co_runners, self.board)
