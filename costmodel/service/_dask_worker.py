"""Jobs on a Dask worker."""

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Reschedule, Worker, WorkerPlugin, get_worker
from distributed.utils import sync

from costmodel.errors import CostModelError
from costmodel.service._cluster import JobProcesses

# Held while job processes are made for a worker.
_STARTING = threading.Lock()


class WorkerJobs(WorkerPlugin):  # type: ignore[misc]
    """The job processes of a Dask worker: as many as it has threads."""

    name = "costmodel-job-processes"

    @classmethod
    def on(cls, worker: Worker) -> "WorkerJobs":
        """Those of a worker, made by its first job: a scheduler that was started anew knows of no plugin."""
        with _STARTING:
            if cls.name not in worker.plugins:
                sync(worker.loop, worker.plugin_add, plugin=cls())
        found = worker.plugins[cls.name]
        assert isinstance(found, cls)
        return found

    def setup(self, worker: Worker) -> None:
        """Start with no processes."""
        self.processes = JobProcesses(worker.state.nthreads, Path(worker.local_directory))
        self._tasks = worker.state.tasks
        self._running: dict[Any, Future[Any]] = {}

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """End the process of a task that nobody wants any more."""
        if (start, finish) == ("executing", "released") and (job := self._running.get(key)):
            job.cancel()

    @contextmanager
    def while_wanted(self, key: Any, job: "Future[Any]") -> Iterator[None]:
        """Within it the job of a task is cancelled where the task is.

        Raises:
            Reschedule: The job was cancelled; a task that is wanted all the same runs elsewhere.
        """
        self._running[key] = job
        # It may have been cancelled before this: then no transition follows that would end its process.
        if (task := self._tasks.get(key)) is None or task.state == "cancelled":
            job.cancel()
        try:
            yield
        except CancelledError as error:
            raise Reschedule from error
        finally:
            del self._running[key]

    async def teardown(self, worker: Worker) -> None:
        """End the processes, without holding up the worker's event loop."""
        await asyncio.to_thread(self.processes.close)


def run_in_dask_process(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    resources: tuple[str, ...],
    timeout_s: float | None,
    key: str | None,
) -> Any:
    """Make a call in a job process of this Dask worker, and wait in one of the worker's threads.

    Raises:
        CostModelError: The worker may not start processes. What the call raises comes as it is.
    """
    if multiprocessing.current_process().daemon:
        raise CostModelError(
            "A Dask worker must be allowed to start processes, but this one is a daemon. Start it with "
            "DASK_DISTRIBUTED__WORKER__DAEMON=False in its environment, or with --no-nanny."
        )
    worker = get_worker()
    jobs = WorkerJobs.on(worker)
    job = jobs.processes.of(resources).submit(function, *arguments, timeout_s=timeout_s, key=key)
    with jobs.while_wanted(worker.get_current_task(), job):
        return job.result()
