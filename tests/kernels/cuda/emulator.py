"""Runs CUDA kernels on the CPU, see ``emulated_cuda/emulation.h``."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCES = Path(__file__).parent / "emulated_cuda"

_COMPILER = ("g++", "-std=c++17", "-w", "-fPIC", "-fno-strict-aliasing")
_SHARED = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
_MOVED = ("global_load_bytes", "global_store_bytes", "shared_load_bytes", "shared_store_bytes")


class EmulationError(Exception):
    """The kernel did not compile, or did what it must not; the message says what."""


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched."""

    kernel: str
    grid: Sequence[int]
    block: Sequence[int]
    shared_bytes: int
    macros: Mapping[str, Any]
    constants: Mapping[str, int]
    folder: Path = SOURCES  # where the kernel's file is, for what it includes


@dataclass(frozen=True)
class Watch:
    """What is watched while a kernel runs: a file of ``emulated_cuda``, its options and those of kernels."""

    file: str
    options: tuple[str, ...]
    kernel_options: tuple[str, ...]


# Kernels without optimization read and write what they say, and are compiled sooner than they run faster.
_SANITIZED = "-fsanitize=address,undefined"
_FAULTS = Watch("watch_faults.cpp", ("-O1", _SANITIZED), ("-O0", _SANITIZED))
# Each access is a call.
_CALLS = ("asan-instrumentation-with-call-threshold=0", "asan-stack=0", "asan-globals=0")
_TRAFFIC = Watch(
    "watch_traffic.cpp",
    ("-O1",),
    (
        "-O0",
        "-fsanitize=kernel-address",
        "-fno-sanitize-recover=all",
        *(f"--param={name}" for name in _CALLS),
    ),
)


class Emulator:
    """Compiles what all kernels share once: a program that loads them, and the header that they include.

    Args:
        folder: Where its files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runtime = cache(self._compile_runtime)
        self._header = cache(self._compile_header)

    def run(self, source: str, launch: Launch, arguments: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The arguments as one run of the kernel leaves them.

        Raises:
            EmulationError: It does not compile, or the sanitizers or the emulation found a fault.
        """
        self._run(source, launch, arguments, _FAULTS)
        return [
            np.frombuffer(file.read_bytes(), argument.dtype).reshape(argument.shape)
            for file, argument in zip(self._files(arguments), arguments, strict=True)
        ]

    def traffic(self, source: str, launch: Launch, arguments: Sequence[NDArray[Any]]) -> dict[str, int]:
        """Bytes that one run of the kernel reads and writes, as ``KernelLaunch`` calls them."""
        counted = self._run(source, launch, arguments, _TRAFFIC)
        return dict(zip(_MOVED, map(int, counted.split()), strict=True))

    def _run(self, source: str, launch: Launch, arguments: Sequence[NDArray[Any]], watch: Watch) -> str:
        kernel = self._compile(source, launch, watch)
        files = self._files(arguments)
        for file, argument in zip(files, arguments, strict=True):
            file.write_bytes(argument.tobytes())
        return _call(self._runtime(watch), kernel, launch.shared_bytes, *launch.grid, *launch.block, *files)

    def _files(self, arguments: Sequence[NDArray[Any]]) -> list[Path]:
        return [self._folder / f"{position}.bin" for position in range(len(arguments))]

    def _compile(self, source: str, launch: Launch, watch: Watch) -> Path:
        """The kernel's library, compiled once; what the kernel's folder holds is taken to stay as it is."""
        text = _SHARED.sub(r'extern \1 \2[] asm("emulated_shared_memory");', source)
        macros = {**launch.macros, "KERNEL": launch.kernel}
        for name, position in launch.constants.items():
            macros |= {"CONSTANT": name, "CONSTANT_POSITION": position}
        options = [*watch.kernel_options, f"-I{self._header(watch)}", f"-I{SOURCES}", f"-I{launch.folder}"]
        options += [f"-D{name}={value}" for name, value in macros.items()]
        key = sha256(repr((text, options)).encode()).hexdigest()[:16]
        file, library = self._folder / f"{key}.cu.h", self._folder / f"{key}.so"
        if not library.exists():
            file.write_text(text.replace("__shared__", "static"), encoding="utf-8")
            own = f'-DKERNEL_FILE="{file}"'
            _call(*_COMPILER, *options, own, "-shared", "-nostdlib", SOURCES / "kernel.cpp", "-o", library)
        return library

    def _compile_runtime(self, watch: Watch) -> Path:
        program = self._folder / Path(watch.file).stem
        files = (SOURCES / "emulation.cpp", SOURCES / watch.file)
        _call(*_COMPILER, *watch.options, "-rdynamic", *files, "-ldl", "-o", program)
        return program

    def _compile_header(self, watch: Watch) -> Path:
        """The folder of the header in the compiler's own form."""
        folder = self._folder / f"{Path(watch.file).stem}-header"
        folder.mkdir()
        header = ("-x", "c++-header", SOURCES / "emulation.h", "-o", folder / "emulation.h.gch")
        _call(*_COMPILER, *watch.kernel_options, *header)
        return folder


def _call(*command: object) -> str:
    environment = {
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise EmulationError(done.stderr[:4000])
    return done.stdout
