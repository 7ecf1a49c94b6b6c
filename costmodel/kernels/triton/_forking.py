"""Jobs for a process of its own, which forks for each: one that crashes the compiler costs itself alone.

Jobs are lines, sent as they are made: the process starts, and works on the first, while the next are made. A
kernel is sent as Triton's front end leaves it.
"""

import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language
from triton.compiler import ASTSource

_CHUNK = 1 << 16
_START_S = 20.0  # that Python and Triton may take to start


class SentSource(ASTSource):  # type: ignore[misc]
    """A kernel whose intermediate code was made in another process; Triton caches it under the same key.

    Args:
        job: Description of the kernel from that process.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.name, self.ext, self.language = job["name"], job["ext"], Language(job["language"])
        self._code, self._hash = job["code"], job["hash"]

    def hash(self) -> str:
        """That of the source that the other process has."""
        return str(self._hash)

    def make_ir(self, *arguments: Any, **named: Any) -> Any:
        """Return the intermediate code, in the context that Triton compiles it in, its last argument."""
        context = named["context"] if "context" in named else arguments[-1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"kernel.{self.ext}"
            path.write_text(self._code)
            module = ir.parse_mlir_module(str(path), context)
        module.context = context
        return module


def run_apart(
    module: str,
    settings: Sequence[object],
    jobs: Iterable[bytes],
    environment: Mapping[str, str],
    timeout_s: float = math.inf,
) -> list[bytes]:
    """Run a module as a script that takes jobs, and return the lines that it prints.

    Args:
        module: Its dotted name.
        settings: What it is called with.
        jobs: A line each, without its end. The process starts with the first.
        environment: Variables beside those of this process.
        timeout_s: Seconds that it has from its start.

    Raises:
        OSError: It cannot be started.
    """
    lines: list[bytes] = []
    process = None
    for job in jobs:
        if process is None:
            process = _start(module, settings, environment)
            assert process.stdout
            reader = threading.Thread(target=lines.extend, args=(process.stdout,))
            reader.start()
        _send(process, job)
    if process is None:
        return []
    _close(process)
    try:
        process.wait(None if timeout_s == math.inf else timeout_s + _START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    reader.join()
    assert process.stdout
    process.stdout.close()
    return lines


def _start(
    module: str, settings: Sequence[object], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    search = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(  # noqa: S603 (this Python, and a module of ours)
        [sys.executable, "-P", "-W", "ignore", "-m", module, *map(str, settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **search, **environment},
    )


def _send(process: "subprocess.Popen[bytes]", job: bytes) -> None:
    assert process.stdin
    with suppress(BrokenPipeError):  # it died: what it did not print is missing
        process.stdin.write(job + b"\n")
        process.stdin.flush()


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.close()


class Inbox:
    """Lines that arrive on standard input, until its end.

    Attributes:
        file: What to wait for.
        is_open: Whether more may come.
    """

    def __init__(self) -> None:
        self.file, self.is_open = sys.stdin.buffer.fileno(), True
        self._left, self._lines = b"", list[bytes]()

    def receive(self) -> None:
        """Read what is there; waits if that is nothing."""
        chunk = os.read(self.file, _CHUNK)
        self.is_open = bool(chunk)
        *whole, self._left = (self._left + chunk).split(b"\n")
        self._lines += whole

    def take(self) -> bytes | None:
        """Return the next line; None if there is none yet."""
        return self._lines.pop(0) if self._lines else None


def run_forked(
    work: Callable[[bytes, int], None],
    most: int,
    deadline: float = math.inf,
    before: Callable[[bytes], None] | None = None,
) -> Iterator[tuple[int, ForkProcess | None]]:
    """Call a function with each line of standard input and its position, each in a process of its own.

    Args:
        work: The function.
        most: Most processes at once.
        deadline: When to give up, by ``time.monotonic``.
        before: Is called here with the first line: what it learns is inherited.

    Yields:
        Position and process of each call as it ends; no process for those that had not by the deadline.
    """
    fork = multiprocessing.get_context("fork")
    running: dict[int, tuple[int, ForkProcess]] = {}
    inbox, position = Inbox(), 0
    while inbox.is_open or running:
        while len(running) < most and (line := inbox.take()) is not None:
            if before and not position:
                before(line)
            process = fork.Process(target=work, args=(line, position))
            process.start()
            running[process.sentinel] = position, process
            position += 1
        listens = inbox.is_open and len(running) < most
        if not listens and not running:
            return
        patience_s = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        ready = set(wait([*running, *([inbox.file] if listens else [])], patience_s))
        if inbox.file in ready:
            inbox.receive()
        for sentinel in running.keys() & ready if ready else set(running):
            of, process = running.pop(sentinel)
            if not ready:
                process.kill()
            process.join()
            yield of, process if ready else None
        if not ready:
            return
