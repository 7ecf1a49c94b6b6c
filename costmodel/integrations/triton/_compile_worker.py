"""Compiles Triton kernels into Triton's cache, each in a process that it may take with it.

A script of its own, which imports Triton and nothing else: neither the program that tunes nor its modules
run again here. It reads jobs, as ``_compiling`` writes them, from standard input, and tells of each one
that ended its process: a JSON line with its position, exit code (below zero a signal's) and first words.
"""

import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler import ASTSource

_FIRST_WORDS = 4096  # a message comes before its stack


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


class _KnownKeyError(Exception):
    """Triton knows by which key it would cache a kernel."""


class _KeyOnly(SentSource):
    """Ends a compilation where it would begin."""

    def make_ir(self, *arguments: Any, **named: Any) -> Any:
        raise _KnownKeyError


def learn_keys(jobs: Iterable[Mapping[str, Any]]) -> None:
    """Let Triton find once what its keys are made of, such as a hash of its own files: forks inherit it."""
    for job in jobs:
        with suppress(Exception):
            _compile(_KeyOnly(job), job)


def compile_job(job: Mapping[str, Any], said: Path) -> None:
    """Compile a kernel. What raises here raises in the other process as well, which tells of it."""
    with said.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    with suppress(Exception):
        _compile(SentSource(job), job)


def _compile(source: ASTSource, job: Mapping[str, Any]) -> None:
    options = {name: _tuples(value) for name, value in job["options"].items()}
    triton.compile(source, target=GPUTarget(*job["target"]), options=options)


def run_forked(
    work: Callable[..., None],
    arguments: Sequence[tuple[Any, ...]],
    most: int,
    deadline: float = math.inf,
) -> Iterator[tuple[int, ForkProcess | None]]:
    """Call a function with each of several arguments, each in a process of its own.

    Args:
        work: The function.
        arguments: What it is called with, each time.
        most: Most processes at once.
        deadline: When to give up, by ``time.monotonic``.

    Yields:
        Position and process of each call as it ends; no process for those that had not by the deadline.
    """
    fork = multiprocessing.get_context("fork")
    running: dict[int, tuple[int, ForkProcess]] = {}
    left = list(enumerate(arguments))
    while left or running:
        while left and len(running) < most:
            position, given = left.pop(0)
            process = fork.Process(target=work, args=given)
            process.start()
            running[process.sentinel] = position, process
        patience_s = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
        ended = set(running).intersection(wait(list(running), patience_s))
        for sentinel in ended or set(running):
            position, process = running.pop(sentinel)
            if not ended:
                process.kill()
            process.join()
            yield position, process if ended else None
        if not ended:
            yield from ((position, None) for position, _ in left)
            return


def main() -> None:
    most, jobs = int(sys.argv[1]), json.load(sys.stdin)
    learn_keys(jobs[:1])
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, str(position)) for position in range(len(jobs))]
        for position, process in run_forked(compile_job, list(zip(jobs, said, strict=True)), most):
            if process and process.exitcode:
                words = said[position].read_text(errors="replace")[:_FIRST_WORDS]
                print(json.dumps([position, process.exitcode, words]), flush=True)


def _tuples(value: Any) -> Any:
    """JSON has lists for tuples, by which Triton knows a compiled kernel."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    main()
