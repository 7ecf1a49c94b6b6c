"""Lowers Triton kernels and counts what they do, each in a process that a crash may take with it.

Run as a script with a number of processes and of seconds: it reads jobs from standard input, forks for each,
and writes a JSON line with the position and the reading of each that was read.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from costmodel.integrations.triton._compile_worker import SentSource, run_forked
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.triton._lower import lower_source
from costmodel.kernels.triton._read import read_texts
from costmodel.kernels.triton._read_cache import ReadEntry, ReadLaunch
from costmodel.kernels.triton._values import Argument, Array

_NO_TIME = Reading(note="There was no time left to read it.")
_DIED = Reading(note="Triton's compiler ended its process.")
_START_S = 20.0  # that Python and Triton may take to start


class ReadJob(msgspec.Struct, frozen=True):
    """A kernel as Triton's front end left it, and how it is launched.

    Attributes:
        name: Name of the kernel.
        ext: What Triton calls the kind of its code.
        language: What Triton calls its language.
        code: Text of the module.
        options: Options of the compiler.
        architecture: Architecture, such as ``sm_90``.
        arguments: What it is called with; the bytes of arrays.
        arrays: Which of them are arrays.
        grid: Programs along each axis.
        warps: Warps of a program.
        entry: Files that keep what is lowered and read.
    """

    name: str
    ext: str
    language: int
    code: str
    options: dict[str, Any]
    architecture: str
    arguments: list[int | float | None]
    arrays: list[bool]
    grid: tuple[int, int, int]
    warps: int
    entry: ReadEntry

    @property
    def launch(self) -> ReadLaunch:
        """How it is launched."""
        told: list[Argument] = [
            Array(int(value or 0)) if is_array else value
            for value, is_array in zip(self.arguments, self.arrays, strict=True)
        ]
        return ReadLaunch(told, self.grid, self.warps)


def read_apart(jobs: Sequence[ReadJob], workers: int, timeout_s: float) -> list[Reading]:
    """Read jobs in other processes; those that are not done in time get a note."""
    if not jobs:
        return []
    search = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(  # noqa: S603 (this Python, and this module)
            [sys.executable, "-P", "-W", "ignore", "-m", __name__, str(workers), str(timeout_s)],
            input=msgspec.json.encode(jobs),
            env={**os.environ, **search},
            capture_output=True,
            timeout=timeout_s + _START_S,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return [Reading(note=describe_failure(error))] * len(jobs)
    found = {position: msgspec.convert(reading, Reading) for position, reading in lines}
    return [found.get(i, _DIED) for i in range(len(jobs))]


def _read(job: ReadJob) -> Reading:
    try:
        told = {"name": job.name, "ext": job.ext, "language": job.language, "code": job.code}
        source = SentSource({**told, "hash": ""})
        texts = lower_source(source, job.options, job.architecture)
        job.entry.keep_texts(texts)
        facts = read_texts(texts, job.launch)
        job.entry.keep_facts(facts)
        return Reading(facts)
    except Exception as error:  # noqa: BLE001 (of Triton, or a text unlike any known: the kernel stays unread)
        return Reading(note=describe_failure(error))


def _answer(job: ReadJob, file: Path) -> None:
    with Path(os.devnull).open("wb") as nothing:  # what the compiler's C++ says
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    file.write_bytes(msgspec.json.encode(_read(job)))


def _main() -> None:
    most, deadline = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    jobs = msgspec.json.decode(sys.stdin.buffer.read(), type=list[ReadJob])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(position)) for position in range(len(jobs))]
        for position, process in run_forked(_answer, list(zip(jobs, files, strict=True)), most, deadline):
            file, otherwise = files[position], _DIED if process else _NO_TIME
            reading = file.read_bytes() if file.exists() else msgspec.json.encode(otherwise)
            print(f"[{position}, {reading.decode()}]", flush=True)


if __name__ == "__main__":
    _main()
