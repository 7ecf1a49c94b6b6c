"""A bench: one physical device, and the process that measures on it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from costmodel.collect._device import start_device_worker
from costmodel.collect._device_job import DeviceSetup
from costmodel.collect._workers import Workers

T = TypeVar("T")

# Opening a device takes TVM's import and, on CUDA, a context: seconds, minutes on a loaded machine.
_OPEN_TIMEOUT_S = 300.0


class Bench:
    """One physical device; its processes are spawned once and kept, and replaced when they hang or die.

    A process opens the device for one setup: under MPS each budget needs its own.

    Attributes:
        position: Of the device among those that measure.
    """

    def __init__(self, position: int, scratch: Path) -> None:
        """Make a bench; its processes start with the first call.

        Args:
            position: Of the device.
            scratch: Where its processes put temporary files.
        """
        self.position = position
        self._scratch = scratch
        self._workers: dict[DeviceSetup, Workers] = {}

    def call(self, function: Callable[..., T], setup: DeviceSetup, *arguments: object, limit_s: float) -> T:
        """Call ``function(setup, *arguments)`` in the process of a setup.

        The time runs once the device is open.

        Raises:
            TimeoutError: It took more than ``limit_s``.
            WorkerDiedError: The process died.
        """
        workers = self._workers.get(setup)
        if workers is None:
            workers = Workers(1, self._scratch, partial(start_device_worker, setup))
            self._workers[setup] = workers
        job = workers.submit(function, setup, *arguments, timeout_s=limit_s)
        return job.result(_OPEN_TIMEOUT_S + limit_s)

    def restart(self, setup: DeviceSetup) -> None:
        """Replace the process of a setup: a CUDA error can stick to the context of its process."""
        self._workers[setup].restart()

    def close(self) -> None:
        """End the processes. May be called twice."""
        for workers in self._workers.values():
            workers.close()
