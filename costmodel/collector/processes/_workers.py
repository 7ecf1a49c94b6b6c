"""Worker processes: they outlive their jobs, but never the process that started them."""

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

from costmodel.errors import CostModelError

T = TypeVar("T")


class WorkerDiedError(CostModelError):
    """The worker process died that had, or was to have, the job.

    Attributes:
        reason: What is known of it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"A worker process must live until its job is done, but it died ({reason}). It may have been "
            "killed for want of memory."
        )
        self.reason = reason


class Workers:
    """Spawned processes that run jobs. One that hangs or dies is replaced at the cost of its job.

    Spawned, not forked: a fork would inherit a CUDA context that it cannot use. Ctrl-C, which a terminal
    sends to all processes of a command, does not reach them: the process that started them ends them.
    """

    def __init__(self, count: int, folder: Path, prepare: Callable[[], None] | None = None) -> None:
        """Make a pool; its processes start with the first job.

        Args:
            count: Processes.
            folder: Where they put temporary files, which killed compilers leave behind.
            prepare: What each process does first; it is not on the time of a job.
        """
        import pebble  # comes with the tvm extra

        self._pebble = pebble
        self._settings = {
            "max_workers": count,
            "initializer": _start_worker,
            "initargs": (folder, prepare),
            "context": _WorkerContext(),
        }
        self._lock = threading.Lock()
        self._closed = False
        self._jobs: set[Future[Any]] = set()
        self._pool = pebble.ProcessPool(**self._settings)

    def submit(
        self, function: Callable[..., T], *arguments: Any, timeout_s: float | None = None, **options: Any
    ) -> Future[T]:
        """Queue a job; its time runs from when a worker takes it.

        Returns:
            What the function returns or raises. ``TimeoutError`` if it took too long, which costs its worker
            the life, ``WorkerDiedError`` if its worker died. It is cancelled if the workers are closed first.
        """
        with self._lock:
            if not self._closed and not self._pool.active:
                self._restart()  # a worker that dies between two jobs breaks the pool
            job: Future[T] = self._pool.schedule(function, args=arguments, kwargs=options, timeout=timeout_s)
            self._jobs.add(job)
        outcome: Future[T] = Future()
        job.add_done_callback(partial(self._pass_on, outcome))
        return outcome

    def _pass_on(self, outcome: Future[T], job: Future[T]) -> None:
        """Give ``outcome`` what became of a job."""
        self._jobs.discard(job)
        if self._closed and (job.cancelled() or job.exception()):
            outcome.cancel()  # what a job meets while its worker is ended says nothing of the job
        if not outcome.set_running_or_notify_cancel():
            return
        error = WorkerDiedError("replaced with all others") if job.cancelled() else job.exception()
        if isinstance(error, self._pebble.ProcessExpired):
            error = WorkerDiedError(f"exit code {error.exitcode}")
        elif isinstance(error, BrokenProcessPool):
            error = WorkerDiedError("between two jobs")
        if error:
            outcome.set_exception(error)
        else:
            outcome.set_result(job.result())

    def restart(self) -> None:
        """Replace all processes; jobs that they have are lost."""
        with self._lock:
            self._restart()

    def close(self) -> None:
        """End the processes. May be called twice."""
        with self._lock:
            self._closed = True
            self._stop()

    def _restart(self) -> None:
        self._stop()
        self._pool = self._pebble.ProcessPool(**self._settings)

    def _stop(self) -> None:
        self._pool.stop()
        self._pool.join()
        for job in list(self._jobs):  # a pool that is stopped forgets the jobs that it has
            job.cancel()


class _WorkerProcess(SpawnProcess):
    """A process that no interrupt reaches, from its first moment on.

    One that dies while it starts prints a traceback, and Pebble may lose the job that waits for it: then
    nobody ever hears of it.
    """

    def start(self) -> None:
        """Start it with what is blocked here for as long: a process inherits that."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _WorkerContext(SpawnContext):
    """Makes such processes."""

    Process = _WorkerProcess


def _start_worker(folder: Path, prepare: Callable[[], None] | None) -> None:
    """The first that a worker process does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    if prepare:
        prepare()


def _end_with_parent() -> None:
    """End this process with its parent, even in the middle of a kernel that hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
