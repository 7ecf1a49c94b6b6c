"""Common parts of the engines whose jobs go to workers of a cluster."""

import ipaddress
import threading
from abc import abstractmethod
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from costmodel.collector._engine import Engine, EngineJob, EngineLostError
from costmodel.collector._local_engine import LocalEngine


class ClusterEngine(Engine):
    """Jobs that somebody else places, and whose ends are heard of.

    Args:
        shares_files: Whether the workers see this machine's files, under the same paths.
    """

    def __init__(self, *, shares_files: bool) -> None:
        super().__init__()
        self.shares_files = shares_files
        self._untold: set[Future[Any]] = set()
        # Who waits for a job is told in this thread, so that what he does then holds up no message.
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="cluster-engine")

    def _start(self, job: EngineJob) -> "Future[Any]":
        outcome: Future[Any] = Future()
        self._untold.add(outcome)
        run = self._run(job, outcome)
        run.add_done_callback(lambda run: self._hear(job, outcome, run))
        return outcome

    @abstractmethod
    def _run(self, job: EngineJob, outcome: "Future[Any]") -> "Future[Any]":
        """Have the cluster run a job, and have it give up when ``outcome`` is cancelled.

        Returns:
            How the run ends; it is cancelled where the cluster gives up by itself.
        """

    def _hear(self, job: EngineJob, outcome: "Future[Any]", run: "Future[Any]") -> None:
        with suppress(RuntimeError):  # the engine is closed, and who waits was told
            self._teller.submit(self._tell, job, outcome, run)

    def _tell(self, job: EngineJob, outcome: "Future[Any]", run: "Future[Any]") -> None:
        """Tell who waits for a job what became of it."""
        if not self._is_to_tell(outcome) or not outcome.set_running_or_notify_cancel():
            return
        try:
            outcome.set_result(run.result())
        except CancelledError:  # not by who waits
            outcome.set_exception(self._lost(job))
        except BaseException as error:  # noqa: BLE001 (it goes to whoever waits)
            outcome.set_exception(self._told(error, job))

    def _is_to_tell(self, outcome: "Future[Any]") -> bool:
        """Whether nobody tells who waits for a job, so that the one who asks may."""
        try:
            self._untold.remove(outcome)
        except KeyError:
            return False
        return True

    @abstractmethod
    def _lost(self, job: EngineJob) -> EngineLostError:
        """What a caller is told where the cluster is gone."""

    @abstractmethod
    def _told(self, error: BaseException, job: EngineJob) -> BaseException:
        """What a caller is told of an error of the cluster or of the job."""

    def close(self) -> None:
        """Cancel what is not done, and disconnect; the workers live on. May be called twice."""
        for outcome in list(self._untold):
            outcome.cancel()
            if self._is_to_tell(outcome):
                outcome.set_running_or_notify_cancel()
        self._disconnect()
        self._teller.shutdown(wait=False)

    @abstractmethod
    def _disconnect(self) -> None:
        """Let go of the cluster. May be called twice."""


def is_of_this_machine(address: str) -> bool:
    """Whether what goes to an address stays on this machine; not where the address cannot be read.

    Args:
        address: Such as ``tcp://localhost:8786``, or the same without a scheme.
    """
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class JobProcesses:
    """The job processes of a worker, for each set of resources some of their own.

    Args:
        count: Jobs that the worker runs at once.
        folder: Where they put temporary files.
    """

    def __init__(self, count: int, folder: Path | None = None) -> None:
        self._count, self._folder = count, folder
        self._engines: dict[tuple[str, ...], LocalEngine] = {}
        self._lock = threading.Lock()

    def of(self, resources: tuple[str, ...]) -> LocalEngine:
        """The processes for jobs that ask for resources of these names; the first such job starts them."""
        with self._lock:
            if resources not in self._engines:
                self._engines[resources] = LocalEngine(self._count, self._folder)
            return self._engines[resources]

    def close(self) -> None:
        """End the processes."""
        for engine in self._engines.values():
            engine.close()
