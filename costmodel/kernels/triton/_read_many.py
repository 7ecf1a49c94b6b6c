"""Reads many configs of kernels side by side, in processes of their own.

Triton's front end works here, on objects of this process, once for all configs that differ in what it does
not look at; the passes behind it, which may crash, and the counting in processes that a second one forks.

Run as a script with a number of processes and of seconds: it takes jobs, and prints a JSON line with the
position of each that ended, and what was found.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.triton._forking import SentSource, run_apart, run_forked
from costmodel.kernels.triton._lower import (
    LoweredTexts,
    Lowering,
    begin_lowering,
    find_ptx_version,
    lower_kernel,
    lower_source,
)
from costmodel.kernels.triton._read import read_kept, read_texts
from costmodel.kernels.triton._read_cache import ReadCache, ReadEntry, hash_front
from costmodel.kernels.triton._values import Argument, Array, ReadLaunch
from costmodel.threads import collecting_nothing

_DIED = Reading(note="Triton's compiler ended its process.")
_NO_TIME = Reading(note="There was no time left to read it.")


class BoundConfig(NamedTuple):
    """A config of a kernel, for the arguments of a launch.

    Attributes:
        lowering: What is compiled.
        launch: How it is launched.
    """

    lowering: Lowering
    launch: ReadLaunch


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


@dataclass
class ManyReader:
    """Reads configs, as many at once as there are workers.

    Attributes:
        cache: What was lowered and read before.
        workers: Processes that lower side by side; 0 lowers in this one, which a crash of the compiler ends.
        timeout_s: Seconds that all configs of a call have; no limit in this process.
        with_faults: Whether what cannot be right is a failure.
    """

    cache: ReadCache
    workers: int = 0
    timeout_s: float = 10.0
    with_faults: bool = False
    _fronts: dict[str, str] = field(default_factory=dict)

    def read(self, configs: Sequence[BoundConfig | Exception]) -> list[Reading]:
        """Return what each config does; a note where it cannot be read, or could not be bound."""
        found: dict[int, Reading] = {}
        sent: list[int] = []

        def jobs() -> Iterator[bytes]:
            for position, config in enumerate(configs):
                try:
                    job = self._look_up(position, config, found)
                except Exception as error:  # noqa: BLE001 (of Triton's front end: the config stays unread)
                    found[position] = Reading(note=describe_failure(error))
                    continue
                if job is not None:
                    sent.append(position)
                    yield msgspec.json.encode(job)

        try:
            with collecting_nothing():
                lines = run_apart(__name__, [self.workers, self.timeout_s], jobs(), {}, self.timeout_s)
        except OSError as error:
            lines, otherwise = [], Reading(note=describe_failure(error))
        else:
            otherwise = _NO_TIME
        for line in lines:
            with suppress(msgspec.DecodeError):  # cut off, as the process was ended
                at, told = msgspec.json.decode(line, type=tuple[int, Reading])
                found[sent[at]] = told
        return [found.get(i, otherwise) for i in range(len(configs))]

    def _look_up(
        self, position: int, config: BoundConfig | Exception, found: dict[int, Reading]
    ) -> ReadJob | None:
        """Find a config here if it is known, or there are no workers; else return the job for them."""
        if isinstance(config, Exception):
            raise config
        lowering, launch = config.lowering, config.launch
        entry = self.cache.entry(lowering, launch)
        if self.workers and not entry.is_known(with_faults=self.with_faults):
            return self._job(lowering, launch, entry)
        lower = partial(_lower, lowering)
        found[position] = read_kept(lower, launch, entry, with_faults=self.with_faults)
        return None

    def _job(self, lowering: Lowering, launch: ReadLaunch, entry: ReadEntry) -> ReadJob:
        """What a worker has to know."""
        source, options = lowering.source, dict(lowering.specialization.options)
        return ReadJob(
            name=source.name,
            ext=source.ext,
            language=source.language.value,
            code="" if entry.is_lowered else self._front(lowering),
            options=options,
            architecture=lowering.architecture,
            arguments=[each.bytes if isinstance(each, Array) else each for each in launch.arguments],
            arrays=[isinstance(each, Array) for each in launch.arguments],
            grid=launch.grid,
            warps=launch.warps,
            entry=entry,
            with_faults=self.with_faults,
        )

    def _front(self, lowering: Lowering) -> str:
        """Return the module as Triton's front end leaves it."""
        key = hash_front(lowering)
        if key not in self._fronts:
            options = lowering.specialization.options
            begun = begin_lowering(lowering.source, options, lowering.architecture)
            self._fronts[key] = str(begun.module)
        return self._fronts[key]


def _lower(lowering: Lowering, with_layouts: bool) -> LoweredTexts:
    return lower_kernel(lowering if with_layouts else lowering.first_dialect)


# A copy, in both dialects.
_COPY = """{layout}module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func public @copy(%arg0: !tt.ptr<f32>, %arg1: !tt.ptr<f32>) attributes {{noinline = false}} {{
    %c128_i32 = arith.constant 128 : i32
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c128_i32 : i32
    %2 = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32{of}>
    %3 = tt.splat %1 : i32 -> tensor<128xi32{of}>
    %4 = arith.addi %3, %2 : tensor<128xi32{of}>
    %5 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>{of}>
    %6 = tt.addptr %5, %4 : tensor<128x!tt.ptr<f32>{of}>, tensor<128xi32{of}>
    %7 = tt.load %6 : tensor<128x!tt.ptr<f32>{of}>
    %8 = tt.splat %arg1 : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>{of}>
    %9 = tt.addptr %8, %4 : tensor<128x!tt.ptr<f32>{of}>, tensor<128xi32{of}>
    tt.store %9, %7 : tensor<128x!tt.ptr<f32>{of}>
    tt.return
  }}
}}
"""
_LAYOUT = (
    "#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>\n"
)


def _warm_up(_: bytes) -> None:
    """Load and compile here what each process that is forked would else have to."""
    texts = LoweredTexts(_COPY.format(layout="", of=""), _COPY.format(layout=_LAYOUT, of=", #blocked"))
    with suppress(Exception):  # each process does it then
        read_texts(texts, ReadLaunch([Array(512), Array(512)], (1, 1, 1), 4))
        find_ptx_version()


def _main() -> None:
    most, deadline = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    gc.disable()  # in processes that live as long as one config too
    with tempfile.TemporaryDirectory() as folder:

        def work(line: bytes, position: int) -> None:
            with Path(os.devnull).open("wb") as nothing:  # what the compiler's C++ says
                for stream in (1, 2):
                    os.dup2(nothing.fileno(), stream)
            job = msgspec.json.decode(line, type=ReadJob)
            found = read_kept(job.lower, job.launch, job.entry, with_faults=job.with_faults)
            Path(folder, str(position)).write_bytes(msgspec.json.encode(found))

        for position, process in run_forked(work, most, deadline, before=_warm_up):
            file = Path(folder, str(position))
            if process:
                found = file.read_bytes() if file.exists() else msgspec.json.encode(_DIED)
                print(f"[{position}, {found.decode()}]", flush=True)


if __name__ == "__main__":
    _main()
