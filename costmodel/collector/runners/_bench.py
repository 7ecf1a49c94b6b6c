"""Benches: physical devices, and the processes that measure on them."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from costmodel.collector._engine import WorkerDiedError
from costmodel.collector._local_engine import LocalEngine
from costmodel.collector._meter import METER, MeteredStage
from costmodel.collector.device._device import (
    describe_device,
    find_wrong,
    grant,
    physical_device,
    prepare_job,
    start_device_worker,
    time_job,
)
from costmodel.collector.device._job import DeviceSetup, KernelJob, TimedKernels
from costmodel.collector.device._timing import Timed
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.liveness import WHOLE, SmLedger
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload

T = TypeVar("T")

# Opening a device takes TVM's import and, on CUDA, a context: seconds, minutes on a loaded machine.
_OPEN_TIMEOUT_S = 300.0


class DeviceJobs(NamedTuple):
    """What the process of a device is asked to do, by functions that it can import.

    Of each job the device is taken for ``time`` alone.

    Attributes:
        describe: As ``costmodel.collector.device.describe_device``.
        prepare: As ``costmodel.collector.device.prepare_job``.
        time: As ``costmodel.collector.device.time_job``.
        find_wrong: As ``costmodel.collector.device.find_wrong``.
    """

    describe: Callable[[DeviceSetup], tuple[Device, dict[str, str]]] = describe_device
    prepare: Callable[[DeviceSetup, KernelJob], None] = prepare_job
    time: Callable[[DeviceSetup, KernelJob], TimedKernels] = time_job
    find_wrong: Callable[[DeviceSetup, KernelJob], dict[str, Timed]] = find_wrong


class Bench:
    """One physical device; its processes are spawned once and kept, and replaced when they hang or die.

    A process opens the device for one setup: under MPS each budget needs its own.

    Attributes:
        position: Of the device among those that measure.
        queue: Runs what needs the device for itself, one after the other.
    """

    def __init__(self, position: int, scratch: Path) -> None:
        """Make a bench; its processes start with the first call.

        Args:
            position: Of the device.
            scratch: Where its processes put temporary files.
        """
        self.position = position
        self._scratch = scratch
        self._workers: dict[DeviceSetup, LocalEngine] = {}
        self._lock, self._closed = threading.Lock(), False
        self.queue = ThreadPoolExecutor(1)

    def call(self, function: Callable[..., T], setup: DeviceSetup, *arguments: object, limit_s: float) -> T:
        """Call ``function(setup, *arguments)`` in the process of a setup.

        The time runs once the device is open.

        Raises:
            TimeoutError: It took more than ``limit_s``.
            WorkerDiedError: The process died.
            CancelledError: The bench was closed first.
        """
        job = self._process(setup).submit(function, setup, *arguments, timeout_s=limit_s)
        return job.result(_OPEN_TIMEOUT_S + limit_s)

    @contextmanager
    def taken(self, setup: DeviceSetup, *choices: range) -> Iterator[range]:
        """Take SMs of the device, whatever other processes of this machine measure on it.

        The process of the setup has opened the device by then, so that others do not wait for that.

        Args:
            setup: How it opened the device.
            choices: The first of these ranges of SMs that is free is taken; all SMs unless given, so that
                nothing else is measured meanwhile.

        Raises:
            DeviceUnavailableError: The process cannot open the device any more.
            CancelledError: The bench was closed first.
        """
        device = self.opened(setup)
        with (
            SmLedger(device).taken(*choices or (WHOLE,)) as sms,
            METER.timing(MeteredStage("device", f"{socket.gethostname()} {device}")),
        ):
            yield sms

    def opened(self, setup: DeviceSetup) -> str:
        """What all processes of this machine call the device, once the process of a setup has opened it.

        No kernel is to blame for what goes wrong here. A process that died while it was idle is replaced.

        Raises:
            DeviceUnavailableError: It cannot open the device.
            CancelledError: The bench was closed first.
        """
        process = self._process(setup)
        try:
            with suppress(WorkerDiedError):
                return process.submit(physical_device, setup).result(_OPEN_TIMEOUT_S)
            return process.submit(physical_device, setup).result(_OPEN_TIMEOUT_S)
        except CancelledError:
            raise
        except Exception as error:
            if self._closed:
                raise CancelledError from error
            told = str(error) or f"it took more than {_OPEN_TIMEOUT_S:g} s"
            raise DeviceUnavailableError(
                f"A new process must be able to open the {setup.kind} device, but: {told}. Continue once "
                "the device is available again."
            ) from error

    def _process(self, setup: DeviceSetup) -> LocalEngine:
        """The process of a setup, started by the first call.

        Raises:
            CancelledError: The bench was closed.
        """
        with self._lock:
            if self._closed:
                raise CancelledError
            if setup not in self._workers:
                prepare = partial(start_device_worker, setup)
                self._workers[setup] = LocalEngine(1, self._scratch, prepare, allowed_deaths=0)
            return self._workers[setup]

    def restart(self, setup: DeviceSetup) -> None:
        """Replace the process of a setup: a CUDA error can stick to the context of its process."""
        self._workers[setup].restart()

    def close(self) -> None:
        """End the processes, and give up what is queued. May be called twice."""
        with self._lock:
            self._closed = True
        self.queue.shutdown(wait=False, cancel_futures=True)
        for workers in self._workers.values():
            workers.close()


class Benches:
    """The physical devices that measure at once, all of one model.

    Args:
        benches: One for each device.
        limit_s: Seconds after which a call is given up.
    """

    def __init__(self, benches: Sequence[Bench], limit_s: float) -> None:
        self._benches, self._limit_s = benches, limit_s
        self._of_workload: dict[str, Bench] = {}

    def __len__(self) -> int:
        return len(self._benches)

    @property
    def first(self) -> Bench:
        """One of them, always the same."""
        return self._benches[0]

    def of(self, workload: Workload) -> Bench:
        """Where a workload is measured: always on the same device, so that its kernels can be compared."""
        next_ = self._benches[len(self._of_workload) % len(self._benches)]
        return self._of_workload.setdefault(workload.name, next_)

    def describe(
        self, jobs: DeviceJobs, setup_of: Callable[[int], DeviceSetup]
    ) -> tuple[Device, dict[str, str]]:
        """Open all devices at once: their model, and the software on them.

        Args:
            jobs: Says how to ask.
            setup_of: How the process at a position opens its device.

        Raises:
            CostModelError: They are of several models. What else opening raises comes as it is.
        """
        found = self._on_all(jobs.describe, setup_of)
        names = sorted({device.name for device, _ in found})
        if len(names) > 1:
            raise CostModelError(f"Devices that measure together must be of one model, but got {names}.")
        return found[0]

    def grant(self, wanted: Platform, setup_of: Callable[[int, Platform], DeviceSetup]) -> int:
        """SMs that all devices grant for a platform; a process that MPS needs for it is started on each.

        Raises:
            CostModelError: They do not grant the same.
            RuntimeError: A driver refuses.
        """
        sms = wanted.sms_requested
        granted = set(self._on_all(grant, lambda position: setup_of(position, wanted), sms, taken=True))
        if len(granted) > 1:
            raise CostModelError(f"All devices must grant the same for {sms} SMs, but got {sorted(granted)}.")
        return granted.pop()

    def close(self) -> None:
        """End all processes. May be called twice."""
        for bench in self._benches:
            bench.close()

    def _on_all(
        self,
        function: Callable[..., T],
        setup_of: Callable[[int], DeviceSetup],
        *arguments: object,
        taken: bool = False,
    ) -> list[T]:
        """What a function gives in the process of each bench, all at once; its device is taken if asked."""

        def call(bench: Bench) -> T:
            setup = setup_of(bench.position)
            with bench.taken(setup) if taken else nullcontext():
                return bench.call(function, setup, *arguments, limit_s=self._limit_s)

        with ThreadPoolExecutor(len(self._benches)) as threads:
            try:
                return list(threads.map(call, self._benches))
            except KeyboardInterrupt:  # what is about to start is not waited for
                self.close()
                raise
