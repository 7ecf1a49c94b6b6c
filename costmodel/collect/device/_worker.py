"""What the CUDA and the CPU worker share. Runs in a worker process."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from costmodel.collect.build import last_line
from costmodel.collect.device._job import KernelFaultError, KernelJob, ModuleJob, Timed
from costmodel.collect.device._module_data import ModuleData
from costmodel.collect.device._pace import Pace
from costmodel.collect.device._timing import Repeats, Stopwatch, Timing, time_kernels
from costmodel.collect.device._workload_data import KeptData, WorkloadData
from costmodel.records import Device, DeviceState, Outcome


class ClosableStopwatch(Stopwatch, Protocol):
    """A stopwatch that holds something of the device."""

    def close(self) -> None:
        """Free it."""
        ...


class DeviceWorker:
    """State of a device worker: the device, its partitions, and the arrays of the current workload.

    Attributes:
        device: TVM's device.
        board: Short id of the physical board; empty where unknown.
        data: Inputs and right output of the current workload.
        errors_stick: Whether the device may be of no more use to a process in which a kernel failed.
    """

    device: Any
    data: WorkloadData
    board = ""
    errors_stick = True

    def __init__(self) -> None:
        import tvm

        self.tvm = tvm
        self._kept = KeptData()
        self._module_data: ModuleData | None = None
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

    def time(self, job: KernelJob) -> list[list[Timed]]:
        """Time the kernels of a job, each after a check of its output on the most SMs that the job names.

        Returns:
            For each group of the job, one for each of its libraries.

        Raises:
            KernelFaultError: A kernel fails.
        """
        try:
            self._prepare(job)
            self.enter(max(sms for sms, _ in job.groups))
            modules = [self.tvm.runtime.load_module(str(library)) for library in job.libraries]
            right = {i: module for i, module in enumerate(modules) if self._computes(module)}
            return [self._time_group(job, right, *group) for group in job.groups]
        except Exception as error:  # noqa: BLE001 (whatever a kernel does is an outcome)
            raise KernelFaultError(last_line(error)) from None

    def time_module(self, job: ModuleJob) -> Timed:
        """Time one module of any kind, whose output nobody checks.

        Raises:
            KernelFaultError: It fails on a device whose state is then unknown.
        """
        try:
            self._module_data = ModuleData.renewed(self._module_data, job.arguments, self.device)
            arguments = self._module_data.arrays
            self.enter(job.sms)
            module = self.tvm.runtime.load_module(str(job.library))
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
            job.workload, lambda: WorkloadData(job.workload, job.reference, self.on_device)
        )

    def on_device(self, arrays: Sequence[Any]) -> list[Any]:
        """Copies of arrays on the device."""
        return [self.tvm.runtime.tensor(array, self.device) for array in arrays]

    def _computes(self, module: Any) -> bool:
        """Whether a kernel writes the right output over one that is full of NaN."""
        self.data.poison()
        self.synchronize()
        module["main"](*self.data.arguments)
        self.synchronize()
        return self.data.is_right

    def _time_group(
        self, job: KernelJob, right: Mapping[int, Any], sms: int, members: Sequence[int]
    ) -> list[Timed]:
        """Time those members that are right on ``sms`` SMs."""
        modules = {job.libraries[i].stem: right[i] for i in members if i in right}
        if job.partitions > 1:
            timed = self.time_together(modules, sms, job)
        else:
            self.enter(sms)
            timed = self._time_alone(modules, job.timing, self.data.arguments)
        wrong = Timed(
            Outcome.WRONG_RESULT, board=self.board, error="output differs from the unscheduled program's"
        )
        return [timed.get(job.libraries[i].stem, wrong) for i in members]

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
