"""Compiles Triton kernels into Triton's cache, each in a process that it may take with it.

A script, which imports Triton and hardly anything else: neither the program that tunes nor its modules run
again here. It takes jobs, as the drop-in's ``_compiling`` makes them, and tells of each one that ended its
process: a JSON line with its position, exit code (below zero a signal's) and first words.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from costmodel.kernels.triton._forking import SentSource, run_forked

_FIRST_WORDS = 4096  # a message comes before its stack


class _KnownKeyError(Exception):
    """Triton knows by which key it would cache a kernel."""


class _KeyOnly(SentSource):
    """Ends a compilation where it would begin."""

    def make_ir(self, *arguments: Any, **named: Any) -> Any:
        raise _KnownKeyError


def learn_keys(line: bytes) -> None:
    """Let Triton find once what its keys are made of, such as a hash of its own files: forks inherit it."""
    job = json.loads(line)
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


def _main() -> None:
    most = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:

        def work(line: bytes, position: int) -> None:
            compile_job(json.loads(line), Path(folder, str(position)))

        for position, process in run_forked(work, most, before=learn_keys):
            if process and process.exitcode:
                words = Path(folder, str(position)).read_text(errors="replace")[:_FIRST_WORDS]
                print(json.dumps([position, process.exitcode, words]), flush=True)


def _tuples(value: Any) -> Any:
    """JSON has lists for tuples, by which Triton knows a compiled kernel."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    _main()
