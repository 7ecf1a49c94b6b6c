"""Builder processes of a machine that all of its workers share, behind a socket of their user.

A worker that had processes of its own would pay for their start, and leave them idle while it proposes. Those
of a pool start once, and serve the workers in turn.
"""

import os
import pickle
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from costmodel.collector._engine import Engine, EngineJob, EngineLostError, EngineWorker, WorkerDiedError
from costmodel.collector._meter import METER, MeteredStage
from costmodel.errors import CostModelError
from costmodel.service._cluster import ClusterEngine

_LOOK_EVERY_S = 0.05


class _Order(NamedTuple):
    """A job as a worker sends it; the pool passes the call on without reading it."""

    number: int
    name: str
    call: bytes
    resources: dict[str, float]
    timeout_s: float | None


class _Cancel(NamedTuple):
    """A worker wants a job no longer."""

    number: int


class _Told(NamedTuple):
    """What became of a job."""

    number: int
    result: bytes = b""
    error: BaseException | None = None


@dataclass(eq=False)
class _Guest:
    """A worker that is connected."""

    connection: Connection
    waiting: deque[_Order] = field(default_factory=deque)
    running: dict[int, "Future[bytes]"] = field(default_factory=dict)
    sending: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, told: _Told) -> None:
        """Send what became of a job, unless the worker is gone."""
        with self.sending, suppress(OSError):
            self.connection.send(told)


class BuilderPool:
    """Lets other processes of this machine and user run jobs on an engine; the workers take turns.

    What waits for a worker that ends or is killed is forgotten. What runs for it goes on: its artifact is
    kept for whoever takes the task over.

    Args:
        path: Path of the socket. Its folder is made if need be.
        engine: Where jobs run, such as a ``LocalEngine``. It stays open.

    Attributes:
        places: Number of jobs that run at once.
        stage: What builders do, as ``METER`` counts it.

    Raises:
        CostModelError: If another pool listens there, or the path cannot be a socket.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self.stage = MeteredStage("build", os.uname().nodename)
        self._engine, self._path = engine, path
        self.places = sum(worker.slots for worker in engine.workers())
        self._guests: deque[_Guest] = deque()
        self._free, self._closed = self.places, False
        self._changed = threading.Condition()
        self._listener = _listen(path)
        self._loops = [threading.Thread(target=loop) for loop in (self._welcome, self._hand_out)]
        for thread in self._loops:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that no builder has yet."""
        with self._changed:
            return sum(len(guest.waiting) for guest in self._guests)

    def close(self) -> None:
        """Disconnect the workers. May be called twice."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        with suppress(OSError):
            Client(str(self._path), "AF_UNIX").close()  # who waits for it looks up
        for thread in self._loops:
            thread.join()
        self._listener.close()
        for guest in list(self._guests):
            _hang_up(guest.connection)

    def _welcome(self) -> None:
        while not self._closed:
            with suppress(OSError):  # the other side was gone at once
                connection = self._listener.accept()
                connection.send(self._engine.workers())
                guest = _Guest(connection)
                with self._changed:
                    self._guests.append(guest)
                threading.Thread(target=self._listen_to, args=(guest,), daemon=True).start()

    def _listen_to(self, guest: _Guest) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._heard(guest, guest.connection.recv())
        with guest.sending:
            guest.connection.close()
        with self._changed:
            guest.waiting.clear()
            self._guests.remove(guest)

    def _heard(self, guest: _Guest, message: _Order | _Cancel) -> None:
        with self._changed:
            if isinstance(message, _Order):
                guest.waiting.append(message)
                self._changed.notify_all()
                return
            left = [order for order in guest.waiting if order.number != message.number]
            guest.waiting = deque(left)
            run = guest.running.get(message.number)
        if run:
            run.cancel()

    def _hand_out(self) -> None:
        """Give jobs to builders that are free, for each worker in turn."""
        while True:
            with self._changed:
                while not self._closed and not (self._free and any(each.waiting for each in self._guests)):
                    self._changed.wait()
                if self._closed:
                    return
                while not self._guests[0].waiting:
                    self._guests.rotate(-1)
                guest = self._guests[0]
                self._guests.rotate(-1)
                order = guest.waiting.popleft()
                self._free -= 1
            self._run(guest, order)

    def _run(self, guest: _Guest, order: _Order) -> None:
        timed = METER.begin(self.stage)
        try:
            run = self._engine.submit(
                run_call, order.call, resources=order.resources, timeout_s=order.timeout_s
            )
        except Exception as error:  # noqa: BLE001 (it goes to whoever waits)
            run = Future()
            run.set_exception(error)
        with self._changed:
            guest.running[order.number] = run
        run.add_done_callback(partial(self._done, guest, order, timed))

    def _done(self, guest: _Guest, order: _Order, timed: int, run: "Future[bytes]") -> None:
        METER.end(timed)
        with self._changed:
            guest.running.pop(order.number, None)
            self._free += 1
            self._changed.notify_all()
        if run.cancelled():
            return  # by the worker, or with the pool
        error = run.exception()
        if isinstance(error, WorkerDiedError):
            error = WorkerDiedError(error.reason, order.name)
        guest.tell(_Told(order.number, error=error) if error else _Told(order.number, run.result()))


class PoolEngine(ClusterEngine):
    """Runs jobs on the builders of this machine that ``costmodel jobs builders`` started.

    Args:
        path: Path of the pool's socket.
        connect_timeout_s: Seconds to wait for a pool that is not there yet.

    Raises:
        CostModelError: If no pool of this user listens there.
    """

    def __init__(self, path: Path, *, connect_timeout_s: float = 10.0) -> None:
        super().__init__(shares_files=True)
        self._path, self._numbers = path, count()
        self._runs: dict[int, Future[Any]] = {}
        self._lock, self._is_lost = threading.Lock(), False
        self._connection, self._builders = _connect(path, connect_timeout_s)
        threading.Thread(target=self._listen, daemon=True).start()

    def _run(self, job: EngineJob, outcome: "Future[Any]") -> "Future[Any]":
        call = pickle.dumps((job.function, job.arguments))
        number, run = next(self._numbers), Future[Any]()
        with self._lock:
            if self._is_lost:
                raise self._lost(job)
            self._runs[number] = run
        self._send(_Order(number, job.name, call, job.resources, job.timeout_s))
        outcome.add_done_callback(lambda outcome: self._give_up(number) if outcome.cancelled() else None)
        return run

    def _give_up(self, number: int) -> None:
        with self._lock:
            run = self._runs.pop(number, None)
        if run:
            self._send(_Cancel(number))
            run.cancel()

    def _send(self, message: _Order | _Cancel) -> None:
        with self._lock, suppress(OSError):  # the thread that listens notices it too, and tells who waits
            self._connection.send(message)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                told: _Told = self._connection.recv()
                with self._lock:
                    run = self._runs.pop(told.number, None)
                if run and told.error:
                    run.set_exception(told.error)
                elif run:
                    run.set_result(pickle.loads(told.result))  # noqa: S301 (of a process of this user)
        with self._lock:
            self._is_lost, left = True, list(self._runs.values())
            self._connection.close()
        for run in left:
            run.cancel()

    def _lost(self, job: EngineJob) -> EngineLostError:
        return EngineLostError(
            f"The builders at {self._path} must be there until {job.name} is done, but they are gone. "
            "Start them again with `costmodel jobs builders`."
        )

    def _told(self, error: BaseException, job: EngineJob) -> BaseException:
        return error

    def workers(self) -> tuple[EngineWorker, ...]:
        """Return what the pool said that it has."""
        return self._builders

    def _disconnect(self) -> None:
        _hang_up(self._connection)


def parse_socket(address: str) -> Path:
    """Return the path of a pool's socket.

    Raises:
        CostModelError: The address is none of a socket.
    """
    parts = urlsplit(address)
    if parts.scheme != "unix" or parts.netloc or not parts.path.startswith("/"):
        raise CostModelError(
            f"Builders must be at an address such as unix:///tmp/builders.sock, but got {address!r}."
        )
    return Path(parts.path)


def run_call(call: bytes) -> bytes:
    """Make a call that a worker sent, in a builder process; its result as bytes."""
    function, arguments = pickle.loads(call)  # noqa: S301 (of a process of this user)
    return pickle.dumps(function(*arguments))


def _hang_up(connection: Connection) -> None:
    """End a connection for the thread that reads it, which closes it.

    If another thread closed it, the next file could get its number, and be read in its place.
    """
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as other:
        other.shutdown(socket.SHUT_RDWR)


def _listen(path: Path) -> Listener:
    """Listen where only this user may connect.

    Raises:
        CostModelError: Another pool does, or nobody can.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket():
        with suppress(ConnectionError):
            Client(str(path), "AF_UNIX").close()
            raise CostModelError(
                f"A pool of builders must have a socket of its own, but one listens at {path}. Use it, or "
                "name another."
            )
        path.unlink()
    mask = os.umask(0o177)
    try:
        return Listener(str(path), "AF_UNIX", backlog=128)
    except OSError as error:
        raise CostModelError(
            f"A pool of builders must listen at a path of at most 100 bytes that is free, but {path} is "
            f"not: {error}."
        ) from error
    finally:
        os.umask(mask)


def _connect(path: Path, timeout_s: float) -> tuple[Connection, tuple[EngineWorker, ...]]:
    """Connect to a pool of this user, and hear what it has: what another user sends is not to be read.

    Raises:
        CostModelError: There is none.
    """
    end = time.monotonic() + timeout_s
    while True:
        try:
            if path.stat().st_uid == os.getuid():
                connection = Client(str(path), "AF_UNIX")
                return connection, connection.recv()
            said = "it belongs to another user"
        except EOFError:
            said = "it ended"
        except OSError as error:
            said = error.strerror or str(error)
        if time.monotonic() > end:
            raise CostModelError(
                f"Builders of this machine must listen at {path}, but {said}. Start them with "
                f"`costmodel jobs builders --at unix://{path}`."
            )
        time.sleep(_LOOK_EVERY_S)
