"""Functions in which TVM may end its process, called in another one.

TVM checks much of what it reads with assertions that abort the process, or not at all: a null or a cycle in
the JSON of a program or a trace is a fault of memory. What others may have written is opened there first. The
process is kept for all calls, and replaced when a call has ended it. Calls and answers are lines of JSON.
"""

import atexit
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import ceil
from time import process_time
from typing import Any, TypeVar, get_type_hints

import msgspec

from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.kernels.metaschedule._tvm_start import import_tvm_for

T = TypeVar("T")

# Processor time of a call; most take milliseconds, the first that needs Tensor Cores some seconds.
_MOST_S = 20
_BYTES_A_S = 100_000  # and more for what is large, such as the kernels of a network
_MOST_WAIT_S = 300.0  # for a start or an answer, on a busy machine
_MOST_END_S = 10.0  # for a process that has closed its end
_ATTEMPTS = 2  # of a call whose process something else kills
_READY = b"ready\n"


class ApartError(Exception):
    """A call raised, ended its process, took too long, or was no JSON. The message says which."""


class _KilledError(Exception):
    """Something else killed the process."""


class _Call(msgspec.Struct, array_like=True):
    """A function by its module and name, and its arguments."""

    module: str
    function: str
    arguments: tuple[Any, ...]


class _Answer(msgspec.Struct):
    """What a function returned.

    Attributes:
        value: The value.
        refusal: Message of the ``CostModelError`` that it raised instead.
        failure: Of any other exception.
    """

    value: Any = None
    refusal: str = ""
    failure: str = ""


def call_apart(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a process that TVM may end.

    The process starts with the first call, which takes seconds to load TVM, and ends with this one. A thread
    calls at a time: the others wait.

    Args:
        function: A function of a module of this package, with types that JSON can hold.
        *arguments: Its arguments.

    Raises:
        CostModelError: The function raised it, or the process cannot start.
        ApartError: It raised anything else, or did not return.
    """
    try:
        line = msgspec.json.encode(_Call(function.__module__, function.__qualname__, arguments)) + b"\n"
    except UNDECODABLE:
        raise ApartError("it is no JSON of moderate depth") from None
    answer = _shared_worker(os.getpid()).ask(line)
    if answer.refusal:
        raise CostModelError(answer.refusal)
    if answer.failure:
        raise ApartError(f"TVM raises {answer.failure}")
    value: T = msgspec.convert(answer.value, get_type_hints(function)["return"])
    return value


class _Worker:
    """The process, while there is one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self._end)

    def ask(self, line: bytes) -> _Answer:
        """Send a call; what was answered.

        Raises:
            ApartError: There is no answer.
        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    return self._exchange(line)
                except _KilledError:  # of the moment, not of the call
                    pass
        raise ApartError("something else killed TVM's process (SIGKILL), as systems do where memory is short")

    def _exchange(self, line: bytes) -> _Answer:
        process = self._process = self._process or _start()
        assert process.stdin
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return msgspec.json.decode(_read_line(process, _most_s(line) + _MOST_WAIT_S), type=_Answer)
        except TimeoutError:
            self._end()
            code = -signal.SIGXCPU
        except (OSError, msgspec.DecodeError):
            with suppress(subprocess.TimeoutExpired):  # of its own accord: its exit code tells how
                process.wait(_MOST_END_S)
            code = self._end()
        except BaseException:  # an interrupt: the answer that is due must not pass for that of the next call
            self._end()
            raise
        if code == -signal.SIGKILL:
            raise _KilledError
        if code == -signal.SIGXCPU:
            raise ApartError(f"TVM takes more than {_most_s(line)} s")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise ApartError(f"TVM ended its process ({how})")

    def _end(self) -> int:
        """End the process, if there is one; returns its exit code, negative for a signal."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        process.communicate()
        return process.returncode


@cache
def _shared_worker(process_id: int) -> _Worker:
    """Return the worker of a process: one that was forked must not ask that of another."""
    return _Worker()


def _start() -> "subprocess.Popen[bytes]":
    """Start the process, and wait until it has loaded TVM.

    Raises:
        CostModelError: It ends instead.
    """
    process = subprocess.Popen(  # noqa: S603 (this module, in this interpreter of Python)
        [sys.executable, "-P", "-W", "ignore", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        is_ready = _read_line(process, _MOST_WAIT_S) == _READY
    except TimeoutError:
        is_ready = False
    except BaseException:
        process.kill()
        process.communicate()
        raise
    if not is_ready:
        process.kill()
        process.communicate()
        raise CostModelError(
            "A process that loads TVM must start, to open programs and traces in it, but ended. Try "
            "`python -c 'import tvm'`."
        )
    return process


def _read_line(process: "subprocess.Popen[bytes]", most_s: float) -> bytes:
    """Read the next line of a process; what there is of it if it ends.

    Raises:
        TimeoutError: It takes too long.
    """
    assert process.stdout
    if not select.select([process.stdout], [], [], most_s)[0]:
        raise TimeoutError
    return process.stdout.readline()


def _most_s(line: bytes) -> int:
    """The most seconds of processor time that a call may take."""
    return _MOST_S + len(line) // _BYTES_A_S


# What follows runs in the process alone.


def _limit_time(line: bytes) -> None:
    """Let the system end this process where a call takes too long, however busy the machine is."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soonest = ceil(process_time()) + _most_s(line)
    resource.setrlimit(resource.RLIMIT_CPU, (soonest if most == -1 else min(soonest, most), most))


def _answer(call: _Call) -> _Answer:
    function = getattr(import_module(call.module), call.function)
    *kinds, _ = get_type_hints(function).values()
    try:
        return _Answer(function(*map(msgspec.convert, call.arguments, kinds)))
    except CostModelError as error:
        return _Answer(refusal=str(error))
    except Exception as error:  # noqa: BLE001 (TVM raises its own error types)
        return _Answer(failure=f"{type(error).__name__}: {last_line(error)}")


def _serve() -> None:
    """Answer the calls of standard input on standard output, which nothing else then writes to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all processes of a command
    import_tvm_for("cpu")
    with os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)
        answers.write(_READY)
        for line in sys.stdin.buffer:
            _limit_time(line)
            answers.write(msgspec.json.encode(_answer(msgspec.json.decode(line, type=_Call))) + b"\n")


if __name__ == "__main__":
    _serve()
