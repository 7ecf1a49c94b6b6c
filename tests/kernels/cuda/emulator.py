"""Runs CUDA kernels on the CPU, see ``emulated_cuda/emulation.h``."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SOURCES = Path(__file__).parent / "emulated_cuda"

_COMPILER = ("g++", "-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-fsanitize=address,undefined")
_SHARED = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")


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


class Emulator:
    """Compiles what all kernels share once.

    Args:
        folder: Where its files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runtime = folder / "emulation.o"
        _call(*_COMPILER, "-c", SOURCES / "emulation.cpp", "-o", self._runtime)

    def run(self, source: str, launch: Launch, arguments: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The arguments as one run of the kernel leaves them.

        Raises:
            EmulationError: It does not compile, or the sanitizers or the emulation found a fault.
        """
        program = self._compile(source, launch)
        files = [self._folder / f"{position}.bin" for position in range(len(arguments))]
        for file, argument in zip(files, arguments, strict=True):
            file.write_bytes(argument.tobytes())
        _call(program, launch.shared_bytes, *launch.grid, *launch.block, *files)
        return [
            np.frombuffer(file.read_bytes(), argument.dtype).reshape(argument.shape)
            for file, argument in zip(files, arguments, strict=True)
        ]

    def _compile(self, source: str, launch: Launch) -> Path:
        file, program = self._folder / "kernel.cu.h", self._folder / "program"
        text = _SHARED.sub(r'extern \1 \2[] asm("emulated_shared_memory");', source)
        file.write_text(text.replace("__shared__", "static"), encoding="utf-8")
        macros = {**launch.macros, "KERNEL": launch.kernel, "KERNEL_FILE": f'"{file}"'}
        for name, position in launch.constants.items():
            macros |= {"CONSTANT": name, "CONSTANT_POSITION": position}
        options = [f"-D{name}={value}" for name, value in macros.items()]
        _call(*_COMPILER, f"-I{SOURCES}", *options, SOURCES / "kernel.cpp", self._runtime, "-o", program)
        return program


def _call(*command: object) -> None:
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
