"""Lowers and reads kernels in processes of their own, whose compiler may take them with it.

Run as a script with a number of processes and of seconds: it takes jobs, and prints a JSON line with the
position of each that ended, and what was found.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from costmodel.kernels._read_facts import Reading
from costmodel.kernels.triton._compile_worker import SentSource
from costmodel.kernels.triton._forking import run_forked
from costmodel.kernels.triton._lower import LoweredTexts, lower_source
from costmodel.kernels.triton._read import read_entry
from costmodel.kernels.triton._read_cache import ReadEntry
from costmodel.kernels.triton._values import Argument, Array, ReadLaunch

DIED = Reading(note="Triton's compiler ended its process.")


class ReadJob(msgspec.Struct, frozen=True):
    """A kernel as Triton's front end left it, and how it is launched.

    Attributes:
        name: Name of the kernel.
        ext: What Triton calls the kind of its code.
        language: What Triton calls its language.
        code: Text of the module; empty where its entry has what it is lowered to.
        options: Options of the compiler.
        architecture: Architecture, such as ``sm_90``.
        arguments: What it is called with; the bytes of arrays.
        arrays: Which of them are arrays.
        grid: Programs along each axis.
        warps: Warps of a program.
        entry: Files that keep what is lowered and read.
        with_faults: Whether what cannot be right is a failure.
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
    with_faults: bool

    @property
    def launch(self) -> ReadLaunch:
        """How it is launched."""
        told: list[Argument] = [
            Array(int(value or 0)) if is_array else value
            for value, is_array in zip(self.arguments, self.arrays, strict=True)
        ]
        return ReadLaunch(told, self.grid, self.warps)

    def lower(self, with_layouts: bool) -> LoweredTexts:
        """Lower the module."""
        told = {"name": self.name, "ext": self.ext, "language": self.language, "code": self.code}
        source = SentSource({**told, "hash": ""})
        return lower_source(source, self.options, self.architecture, with_layouts=with_layouts)


def _main() -> None:
    most, deadline = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:

        def work(line: bytes, position: int) -> None:
            with Path(os.devnull).open("wb") as nothing:  # what the compiler's C++ says
                for stream in (1, 2):
                    os.dup2(nothing.fileno(), stream)
            job = msgspec.json.decode(line, type=ReadJob)
            found = read_entry(job.lower, job.launch, job.entry, with_faults=job.with_faults)
            Path(folder, str(position)).write_bytes(msgspec.json.encode(found))

        for position, process in run_forked(work, most, deadline):
            file = Path(folder, str(position))
            if process:
                found = file.read_bytes() if file.exists() else msgspec.json.encode(DIED)
                print(f"[{position}, {found.decode()}]", flush=True)


if __name__ == "__main__":
    _main()
