"""The contract of an engine: where the stage jobs of tuning run."""

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from costmodel.errors import CostModelError

T = TypeVar("T")


class WorkerDiedError(CostModelError):
    """Every worker process that had the job, or was to have it, died.

    Attributes:
        reason: What is known about the cause.
        job: Name of the job.
    """

    def __init__(self, reason: str, job: str = "its job") -> None:
        super().__init__(
            f"A worker process must live until {job} is done, but it died ({reason}). It may have been "
            "killed for want of memory."
        )
        self.reason, self.job = reason, job

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """An exception is made anew from its message, unless it says of what."""
        return type(self), (self.reason, self.job)


class WorkerStartError(CostModelError):
    """A worker process ended while it imported the script that started it.

    Attributes:
        script: File of the script.
    """

    def __init__(self, script: str) -> None:
        super().__init__(
            f'A script that starts worker processes must do so under `if __name__ == "__main__":`, because '
            f"each of them imports the script first; one ended while it imported {script}. Put what the "
            "script runs, but for imports and definitions, under that line."
        )
        self.script = script

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """An exception is made anew from its message, unless it says of what."""
        return type(self), (self.script,)


class EngineLostError(CostModelError):
    """The scheduler of an engine is gone, and its jobs with it; workers and stores are unaffected."""


@dataclass(frozen=True)
class EngineWorker:
    """A worker of an engine.

    Attributes:
        name: Name, unique within the engine.
        host: Host that it runs on.
        slots: Number of jobs that it runs at once.
        resources: Total resources that its jobs may use at once.
    """

    name: str
    host: str
    slots: int
    resources: Mapping[str, float] = field(default_factory=dict)


class EngineJob(NamedTuple):
    """A call that an engine makes on a worker.

    Attributes:
        function: Function to call; it must be importable by its name.
        arguments: Arguments of the call.
        resources: Resources that the call needs from a worker.
        timeout_s: Seconds after which the job is given up.
        key: See ``Engine.submit``.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    resources: dict[str, float]
    timeout_s: float | None
    key: str | None

    @property
    def name(self) -> str:
        """Name of the job in errors."""
        return self.key or _called(self.function)


class Engine(ABC):
    """Runs stage jobs in other processes, possibly on other machines.

    A stage is a pure function of its arguments and of the stores that they name. It may run twice: a job
    whose worker dies runs again. A job that ends every worker that it meets ends in an error.

    Attributes:
        shares_files: Whether jobs see the files of this process, under the same paths.
    """

    shares_files: bool

    def __init__(self) -> None:
        self._in_flight: weakref.WeakValueDictionary[str, Future[Any]] = weakref.WeakValueDictionary()
        self._keys = threading.Lock()

    def submit(
        self,
        function: Callable[..., T],
        *arguments: Any,
        resources: Mapping[str, float] | None = None,
        key: str | None = None,
        timeout_s: float | None = None,
    ) -> Future[T]:
        """Queue a job. Safe to call from any thread.

        Args:
            function: A function of a module, a method, or a ``functools.partial`` of one: workers import it.
            arguments: Arguments of the function, which must be picklable.
            resources: Resources that the job needs from a worker, such as ``{"gpu": 1}``. Only workers that
                have them get the job.
            key: Jobs with the same key are the same job: while the future of one is referenced and has not
                failed, it is returned again. The key also names the job in errors.
            timeout_s: Seconds after which the job is given up, counted from when a worker takes it.

        Returns:
            Future of what the function returns or raises. It raises ``TimeoutError`` if the job took too
            long, ``WorkerDiedError`` if every worker that had it died, and ``EngineLostError`` if the engine
            was lost. It is cancelled if the engine is closed first. Cancelling a running job ends its
            process.

        Raises:
            CostModelError: If the function cannot be imported by its name.
            EngineLostError: If the engine was already lost.
        """
        _check_importable(function)
        job = EngineJob(function, arguments, dict(resources or {}), timeout_s, key)
        if key is None:
            return self._start(job)
        with self._keys:
            known = self._in_flight.get(key)
            if known is None or _has_failed(known):
                known = self._in_flight[key] = self._start(job)
            return known

    @abstractmethod
    def _start(self, job: EngineJob) -> "Future[Any]":
        """Queue a job."""

    @abstractmethod
    def workers(self) -> tuple[EngineWorker, ...]:
        """Return the current workers."""

    @abstractmethod
    def close(self) -> None:
        """Give up queued jobs, and release the workers. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_importable(function: Callable[..., Any]) -> None:
    name = _called(function)
    if "<" in name:  # <lambda>, <locals>
        raise CostModelError(
            f"A job must call a function that workers can import by its name, but got `{name}`. "
            "Define it at the top of a module."
        )


def _called(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__qualname__)


def _has_failed(future: "Future[Any]") -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)
