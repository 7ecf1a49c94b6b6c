"""A function in a process of its own that is ended when its time is up; what it sent until then counts."""

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

START_LIMIT_S = 180.0  # for the imports before the first message


class ProcessFailedError(RuntimeError):
    """The function raised, or its process died."""


def messages(function: Callable[..., None], *arguments: Any, limit_s: float) -> Iterator[Any]:
    """What ``function(send, *arguments)`` sends until it returns or its time is up.

    The clock starts with the first message. In the end the process and all that it started are killed:
    TVM's pools may not end by themselves.

    Args:
        function: Importable in a spawned process, as are its arguments.
        arguments: Its arguments behind ``send``.
        limit_s: Seconds after the first message.

    Raises:
        ProcessFailedError: The function raised, died, or sent nothing within ``START_LIMIT_S``.
    """
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        process = spawn.Process(target=_run, args=(sender, scratch, function, arguments))
        process.start()
        sender.close()
        try:
            yield from _received(receiver, limit_s)
        finally:
            _kill(process)


def _received(receiver: Connection, limit_s: float) -> Iterator[Any]:
    deadline, begun = time.monotonic() + START_LIMIT_S, False
    while receiver.poll(max(0.0, deadline - time.monotonic())):
        try:
            kind, message = receiver.recv()
        except EOFError:
            raise ProcessFailedError("the process died") from None
        if kind == "error":
            raise ProcessFailedError(message)
        if kind == "end":
            return
        if not begun:
            deadline, begun = time.monotonic() + limit_s, True
        yield message
    if not begun:
        raise ProcessFailedError(f"nothing was sent within {START_LIMIT_S:g} s")


def _run(sender: Connection, scratch: str, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.setpgrp()  # not a session of its own, which would outlive the command that started it
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    try:
        function(lambda message: sender.send(("message", message)), *arguments)
        sender.send(("end", None))
    except Exception as error:  # noqa: BLE001 (the other process raises it)
        sender.send(("error", f"{type(error).__name__}: {error}"))
    sender.close()
    os._exit(0)


def _kill(process: Any) -> None:
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
