"""Common parts of the CUDA and the CPU worker."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from costmodel.collector.device._job import (
    ArrayArgument,
    KernelFaultError,
    KernelJob,
    ModuleJob,
    TimedKernels,
)
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._runtimes import Kernel, Runtime, TvmRuntime
from costmodel.collector.device._timing import Stopwatch, Timed, Timing, time_kernels
from costmodel.collector.device._workload_data import KeptData, WorkloadData, Written
from costmodel.errors import InvalidConfigError
from costmodel.failures import last_line
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS, DeviceState, Outcome
from costmodel.records._platform import Device


class ClosableStopwatch(Stopwatch, Protocol):
    """A stopwatch that holds something of the device."""

    def close(self) -> None:
        """Free it."""
        ...


class DeviceWorker:
    """State of a device worker: the device, its partitions, and the arrays of the current workload.

    Args:
        artifacts: How the files of the kernels end that will be timed; their runtimes are opened.

    Attributes:
        runtime: What loads and launches the kernels of the current job.
        board: Short id of the physical board; empty where unknown.
        physical_device: What all processes of this machine call the device.
        data: Inputs and right output of the current workload.
        lane: The SMs of the current job, where other processes measure on the others.
        errors_stick: Whether the device may be of no more use to a process in which a kernel failed.
    """

    data: WorkloadData
    runtime: Runtime
    board = ""
    physical_device: str
    lane: range | None = None
    errors_stick = True

    def __init__(self, artifacts: Sequence[str]) -> None:
        self._runtimes: dict[str, Runtime] = {}
        for artifact in artifacts:
            self.use_runtime(artifact)
        self._kept = KeptData()
        self._random: tuple[tuple[ArrayArgument, ...], list[Any]] = (), []
        self._pace = Pace(self.state)
        # Libraries of the job timed last, and what its kernels wrote.
        self._written: tuple[Any, Written | None] = None, None

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The device model, and the versions that can change its latencies."""
        raise NotImplementedError

    def open_runtime(self, artifact: str) -> Runtime:
        """What runs the artifacts that end so."""
        raise NotImplementedError

    def use_runtime(self, artifact: str) -> None:
        """Make what runs the artifacts that end so that of the current job; it is opened once."""
        if artifact not in self._runtimes:
            self._runtimes[artifact] = self.open_runtime(artifact)
        self.runtime = self._runtimes[artifact]

    @property
    def software(self) -> dict[str, str]:
        """Versions of all runtimes."""
        return {name: version for each in self._runtimes.values() for name, version in each.software.items()}

    def grant(self, sms: int) -> int:
        """The number of SMs that a budget of ``sms`` gives, counted on the device where it can be.

        Raises:
            CostModelError: The device runs on another number than it granted.
            RuntimeError: The driver refuses.
        """
        raise NotImplementedError

    def prepare(self, job: KernelJob) -> None:
        """Make on the host what the kernels of a job read; the device may be another's meanwhile.

        Raises:
            KernelFaultError: It cannot be made.
        """
        try:
            self.use_runtime(job.source.artifact)
            self._prepare(job)
        except Exception as error:  # noqa: BLE001 (it is the outcome of the kernels)
            raise KernelFaultError(last_line(error)) from None

    def time(self, job: KernelJob) -> TimedKernels:
        """Time the kernels of a job, each after a run whose outputs are kept for ``find_wrong``.

        Raises:
            KernelFaultError: A kernel fails.
        """
        self.lane = job.lane
        try:
            self.use_runtime(job.source.artifact)
            self.enter(max(job.libraries))
            self._prepare(job)
            self._written = job.libraries, Written(self.data)
            paths = {_id_of(path): path for libraries in job.libraries.values() for path in libraries}
            kernels = {id_: self.runtime.load(path) for id_, path in paths.items()}
            refused = {id_: why for id_, kernel in kernels.items() if (why := self._run(id_, kernel))}
            runs = {id_: kernel for id_, kernel in kernels.items() if id_ not in refused}
            return {
                sms: self._time_on(sms, job, runs) | _of(job.libraries[sms], refused) for sms in job.libraries
            }
        except Exception as error:  # noqa: BLE001 (whatever a kernel does is an outcome)
            raise KernelFaultError(last_line(error)) from None
        finally:
            self.lane = None

    def find_wrong(self, job: KernelJob) -> dict[str, Timed]:
        """Compare what the kernels of the job timed last have written, by candidate id, those that are wrong.

        The host compares, so that the device may be another's meanwhile.

        Raises:
            KernelFaultError: Another job was timed last, or none.
        """
        (timed, written), self._written = self._written, (None, None)
        if written is None or timed != job.libraries:
            raise KernelFaultError("the process that ran it is gone, and what it wrote with it")
        wrong = Timed(Outcome.WRONG_RESULT, board=self.board, error="output differs from the reference")
        try:
            return dict.fromkeys(written.find_wrong(), wrong)
        except Exception as error:  # noqa: BLE001 (it is the outcome of the kernels)
            raise KernelFaultError(last_line(error)) from None

    def time_module(self, job: ModuleJob) -> Timed:
        """Time one module of any kind, whose output nobody checks.

        Raises:
            KernelFaultError: It fails on a device whose state is then unknown.
        """
        try:
            self.use_runtime(".so")
            arguments = self._random_arrays(job.arguments)
            self.enter(job.sms)
            kernel = self.runtime.load(job.library)
            self.synchronize()
            kernel(*arguments)  # one that faults does so here
            self.synchronize()
            return self._time_alone({"": kernel}, job.timing, arguments)[""]
        except Exception as error:  # noqa: BLE001 (whatever a kernel does is an outcome)
            if self.errors_stick:
                raise KernelFaultError(last_line(error)) from None
            return Timed(Outcome.LAUNCH_ERROR, error=last_line(error))

    def enter(self, sms: int) -> None:
        """Confine what follows to ``sms`` SMs."""
        raise NotImplementedError

    def stopwatch(self, kernel: Kernel, arguments: list[Any]) -> ClosableStopwatch:
        """What times a loaded kernel with these arguments on the SMs that are entered."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait for copies and kernels on every stream of the device."""

    def state(self) -> DeviceState:
        """What the sensors say now."""
        return DeviceState()

    def time_together(self, kernels: Mapping[str, Kernel], sms: int, job: KernelJob) -> dict[str, Timed]:
        """Time kernels, by candidate id, on ``job.partitions`` partitions of ``sms`` SMs at once."""
        raise NotImplementedError

    def _prepare(self, job: KernelJob) -> None:
        """Make the workload's arguments and read the right outputs, unless they are kept."""
        self.data = self._kept.get(
            job.source.name,
            job.workload,
            lambda: WorkloadData(job.source, job.workload, job.reference, self.runtime),
        )

    def _random_arrays(self, arguments: tuple[ArrayArgument, ...]) -> list[Any]:
        """Arguments of a module, the same as before where they are alike: a task's kernels share memory."""
        if self._random[0] != arguments:
            assert isinstance(self.runtime, TvmRuntime)
            self._random = arguments, self.runtime.random_arrays(arguments)
        return self._random[1]

    def _run(self, id_: str, kernel: Kernel) -> Timed | None:
        """Run the kernel of a candidate once, and hold what it wrote; return why it must not be timed, if so.

        A library may refuse a config before it touches the device.
        """
        self.data.reset()
        self.synchronize()
        try:
            result = kernel(*self.data.arguments)
        except InvalidConfigError as error:
            return Timed(Outcome.INVALID_CONFIG, board=self.board, error=str(error))
        self.synchronize()
        _, written = self._written
        assert written is not None
        written.add(id_, self.data.written(result))
        return None

    def _time_on(self, sms: int, job: KernelJob, runs: Mapping[str, Kernel]) -> dict[str, Timed]:
        """Time those of a job's kernels for ``sms`` SMs that run; by candidate id, as is ``runs``."""
        kernels = {id_: runs[id_] for id_ in map(_id_of, job.libraries[sms]) if id_ in runs}
        if job.partitions > 1:
            return self.time_together(kernels, sms, job)
        self.enter(sms)
        return self._time_alone(kernels, job.timing, self.data.arguments)

    def _time_alone(
        self, kernels: Mapping[str, Kernel], timing: Timing, arguments: list[Any]
    ) -> dict[str, Timed]:
        """Time kernels that take the same arguments side by side."""
        watches = {name: self.stopwatch(kernel, arguments) for name, kernel in kernels.items()}
        timed = time_kernels(watches, timing, self._pace)
        for watch in watches.values():
            watch.close()
        return {name: self.locate(each) for name, each in timed.items()}

    def locate(self, timed: Timed) -> Timed:
        """Add where a kernel was timed; on a lane nobody knows what ran beside it."""
        beside = timed.co_runners or (UNKNOWN_CO_RUNNERS if self.lane else ())
        return replace(timed, co_runners=beside, board=self.board)


def _of(artifacts: Sequence[Path], wrong: Mapping[str, Timed]) -> dict[str, Timed]:
    """What is wrong with those of these artifacts that are."""
    return {id_: wrong[id_] for id_ in map(_id_of, artifacts) if id_ in wrong}


def _id_of(artifact: Path) -> str:
    """The id of the candidate that an artifact was built from."""
    return artifact.name.partition(".")[0]
