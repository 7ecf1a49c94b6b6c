"""A bench: one physical device, and the process that measures on it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from costmodel.collect.device import DeviceSetup, start_device_worker
from costmodel.collect.processes import Workers

T = TypeVar("T")

# Opening a device takes TVM's import and, on CUDA, a context: seconds, minutes on a loaded machine.
_OPEN_TIMEOUT_S = 300.0


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
        self._workers: dict[DeviceSetup, Workers] = {}
        self._lock = threading.Lock()
        self.queue = ThreadPoolExecutor(1)

    def call(self, function: Callable[..., T], setup: DeviceSetup, *arguments: object, limit_s: float) -> T:
        """Call ``function(setup, *arguments)`` in the process of a setup.

        The time runs once the device is open.

        Raises:
            TimeoutError: It took more than ``limit_s``.
            WorkerDiedError: The process died.
        """
        with self._lock:
            if setup not in self._workers:
                self._workers[setup] = Workers(1, self._scratch, partial(start_device_worker, setup))
        job = self._workers[setup].submit(function, setup, *arguments, timeout_s=limit_s)
        return job.result(_OPEN_TIMEOUT_S + limit_s)

    def restart(self, setup: DeviceSetup) -> None:
        """Replace the process of a setup: a CUDA error can stick to the context of its process."""
        self._workers[setup].restart()

    def close(self) -> None:
        """End the processes, and give up what is queued. May be called twice."""
        self.queue.shutdown(wait=False, cancel_futures=True)
        for workers in self._workers.values():
            workers.close()
