"""An engine of worker processes: they outlive their jobs, but never the process that started them."""

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.collector._engine import Engine, EngineJob, EngineWorker, WorkerDiedError, WorkerStartError
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.liveness import renewing
from costmodel.threads import cpu_threads

# Pools that may break while a job waits, none of whose processes died of it; more are no accident.
_MOST_BREAKS = 8
_WATCH_S = 0.5


class LocalEngine(Engine):
    """Processes of this machine, kept for many jobs. A process that hangs or dies is replaced.

    Processes are spawned, not forked from this one: a fork would inherit a CUDA context that it cannot use,
    and locks that threads hold. Where modules are named, processes are forked from one that does nothing but
    import these. Ctrl-C, which a terminal sends to all processes of a command, does not reach them; the
    process that started them ends them.
    """

    shares_files = True

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        count: int | None = None,
        folder: Path | None = None,
        prepare: Callable[[], None] | None = None,
        *,
        allowed_deaths: int = 1,
        resources: Mapping[str, float] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        """Make a pool; its processes start with the first job.

        Args:
            count: Processes, one for each hardware thread unless given.
            folder: Where they put temporary files, which killed compilers leave behind.
            prepare: What each process does first; it is not on the time of a job.
            allowed_deaths: Workers that may die of a job before it is given up.
            resources: What each process has for its job.
            modules: Imported once, for all processes. The first engine of a process that names some decides.

        Raises:
            CostModelError: Pebble is not installed.
        """
        super().__init__()
        _end_if_importing_script()
        if find_spec("pebble") is None:
            raise MissingExtraError("Running jobs in processes that may die", "tvm")
        import pebble

        self._pebble = pebble
        self._count, self._resources = count or cpu_threads(), dict(resources or {})
        self._allowed_deaths = allowed_deaths
        self._context = _ForkingContext(modules) if modules else _SpawningContext()
        self._began = self._context.Event()
        self._settings = {
            "max_workers": self._count,
            "initializer": _start_worker,
            "initargs": (self._began, folder, prepare),
            "context": self._context,
        }
        self._lock = threading.Lock()
        self._closed, self._restarts = False, 0
        self._jobs: set[Future[Any]] = set()
        self._pool = pebble.ProcessPool(**self._settings)
        self._watching = ExitStack()
        self._watching.enter_context(renewing(self._replace_broken, _WATCH_S))

    def _start(self, job: EngineJob) -> "Future[Any]":
        lacking = {name for name, amount in job.resources.items() if amount > self._resources.get(name, 0)}
        if lacking:
            raise CostModelError(
                f"`{job.name}` must ask for what each process has, {self._resources}, but it asks for "
                f"{job.resources}. Open the engine with these resources, or send the job to another."
            )
        outcome: Future[Any] = Future()
        self._schedule(job, outcome)
        return outcome

    def _schedule(self, job: EngineJob, outcome: "Future[Any]", deaths: int = 0, breaks: int = 0) -> None:
        with self._lock:
            run = self._hand_over(job)
            self._jobs.add(run)
            attempt = _Attempt(job, outcome, deaths, breaks, self._restarts)
        run.add_done_callback(partial(self._pass_on, attempt))
        outcome.add_done_callback(lambda outcome: run.cancel() if outcome.cancelled() else None)

    def _hand_over(self, job: EngineJob) -> "Future[Any]":
        """Give a job to a pool that works; a worker that dies between two jobs breaks one, at any moment."""
        for _ in range(_MOST_BREAKS):
            if self._closed:
                raise RuntimeError("The engine is closed.")
            if not self._pool.active:
                self._renew()
            with suppress(RuntimeError):
                run: Future[Any]
                run = self._pool.schedule(job.function, args=job.arguments, timeout=job.timeout_s)
                return run
        raise WorkerDiedError("between two jobs", job.name)

    def _replace_broken(self) -> None:
        """Have jobs run again that came to a pool as it broke: it ends only those that it knew of."""
        with self._lock:
            if not self._closed and self._jobs and not self._pool.active:
                self._renew()

    def _pass_on(self, attempt: "_Attempt", run: "Future[Any]") -> None:
        """Give who waits for a job what became of it, or run it again."""
        self._jobs.discard(run)
        outcome = attempt.outcome
        if self._closed and (run.cancelled() or run.exception()):
            outcome.cancel()  # what a job meets while its worker is ended says nothing of the job
        error, is_break = self._error(run, attempt.job), _is_break(run)
        if isinstance(error, WorkerDiedError) and self._may_run_again(attempt, is_break=is_break):
            # Not in this thread, which is the pool's: a new pool waits for it to end.
            threading.Thread(target=self._run_again, args=(attempt, is_break), daemon=True).start()
        elif not outcome.set_running_or_notify_cancel():
            return
        elif error:
            outcome.set_exception(error)
        else:
            outcome.set_result(run.result())

    def _may_run_again(self, attempt: "_Attempt", *, is_break: bool) -> bool:
        restarted = attempt.restarts != self._restarts
        if restarted or attempt.outcome.cancelled():
            return False
        if is_break and self._allowed_deaths:
            return attempt.breaks < _MOST_BREAKS
        return attempt.deaths < self._allowed_deaths

    def _run_again(self, attempt: "_Attempt", is_break: bool) -> None:
        job, outcome, deaths, breaks, _ = attempt
        try:
            self._schedule(job, outcome, deaths + (not is_break), breaks + is_break)
        except WorkerDiedError as error:
            if outcome.set_running_or_notify_cancel():
                outcome.set_exception(error)
        except RuntimeError:  # the pool was closed in between
            outcome.cancel()
            outcome.set_running_or_notify_cancel()

    def _error(self, run: "Future[Any]", job: EngineJob) -> BaseException | None:
        if run.cancelled():
            return WorkerDiedError("replaced with all others", job.name)
        error = run.exception()
        if isinstance(error, self._pebble.ProcessExpired):
            return WorkerDiedError(f"exit code {error.exitcode}", job.name)
        if isinstance(error, BrokenProcessPool):
            if not self._began.is_set() and self._context.has_failed() and (script := _script()):
                return WorkerStartError(script)
            return WorkerDiedError("between two jobs", job.name)
        return error

    def workers(self) -> tuple[EngineWorker, ...]:
        """Return this machine as the only worker."""
        host = socket.gethostname()
        total = {name: amount * self._count for name, amount in self._resources.items()}
        return (EngineWorker(host, host, self._count, total),)

    def restart(self) -> None:
        """Replace all processes. Jobs that they are running are lost."""
        with self._lock:
            self._restarts += 1
            self._renew()

    def close(self) -> None:
        """End the processes. May be called twice."""
        with self._lock:
            self._closed = True
            self._stop()
        self._watching.close()  # without the lock, for which it may wait

    def _renew(self) -> None:
        self._stop()
        self._pool = self._pebble.ProcessPool(**self._settings)

    def _stop(self) -> None:
        self._pool.stop()
        self._pool.join()
        for job in list(self._jobs):  # a pool that is stopped forgets the jobs that it has
            job.cancel()


class _Attempt(NamedTuple):
    """One run of a job.

    Attributes:
        job: The job.
        outcome: What its caller has.
        deaths: Workers that died of it before.
        breaks: Pools that ended before with the job, for what was none of its doing.
        restarts: How often all processes had been replaced when it began.
    """

    job: EngineJob
    outcome: "Future[Any]"
    deaths: int
    breaks: int
    restarts: int


def _is_break(run: "Future[Any]") -> bool:
    """Whether a job ended with its pool, because a process died that had another job or none."""
    return run.cancelled() or isinstance(run.exception(), BrokenProcessPool)


class _Uninterrupted:
    """A process that no interrupt reaches, from its first moment on.

    One that dies while it starts prints a traceback, and Pebble may lose the job that waits for it: then
    nobody ever hears of it.
    """

    def start(self) -> None:
        """Start it with what is blocked here for as long: a process inherits that."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            super().start()  # type: ignore[misc]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _SpawnedProcess(_Uninterrupted, SpawnProcess):
    """One that starts from nothing."""


class _ForkedProcess(_Uninterrupted, ForkServerProcess):
    """One that is forked from a server, which inherits what is blocked where it is first needed."""


class _Remembering:
    """Makes processes, and remembers them: Pebble forgets how one ended that had no job."""

    _kind: type[_SpawnedProcess | _ForkedProcess]

    def __init__(self) -> None:
        super().__init__()
        self._made: list[_SpawnedProcess | _ForkedProcess] = []

    def Process(self, *arguments: Any, **settings: Any) -> _SpawnedProcess | _ForkedProcess:  # noqa: N802
        """Make a process."""
        self._made.append(self._kind(*arguments, **settings))
        return self._made[-1]

    def has_failed(self) -> bool:
        """Tell whether a process ended with an error of its own; one that was killed did not."""
        return any((process.exitcode or 0) > 0 for process in self._made)


class _SpawningContext(_Remembering, SpawnContext):  # type: ignore[misc]
    """Its processes start from nothing."""

    _kind = _SpawnedProcess


class _ForkingContext(_Remembering, ForkServerContext):  # type: ignore[misc]
    """Its processes are forked from one that imported modules, on the first need."""

    _kind = _ForkedProcess

    def __init__(self, modules: Sequence[str]) -> None:
        super().__init__()
        self.set_forkserver_preload(list(modules))


def _script() -> str | None:
    """Return the file that a worker imports before it begins; None in a notebook or for ``python -c``."""
    return getattr(sys.modules["__main__"], "__file__", None)


def _end_if_importing_script() -> None:
    """End a worker process that starts workers while it still imports the script that started it.

    It would start workers without end. Whatever stands around the call, a ``SystemExit`` leaves it, and the
    process that waits for this one tells what is wrong with the script.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit("costmodel: this worker process ends, because the script that it imports starts workers.")


def _start_worker(began: Event, folder: Path | None, prepare: Callable[[], None] | None) -> None:
    """Set up a worker process before its first job."""
    began.set()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    if prepare:
        prepare()


def _end_with_parent() -> None:
    """End this process with its parent, even in the middle of a kernel that hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
