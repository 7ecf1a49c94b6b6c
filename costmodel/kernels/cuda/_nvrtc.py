"""NVIDIA's runtime compiler, which needs no GPU: from CUDA source to machine code."""

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.errors import MissingExtraError
from costmodel.kernels._artifact import CompileError
from costmodel.reading import exists
from costmodel.records._platform import compute_capability

FIRST_WITH_HEADERS = (12, 8)  # that precompiles headers


# Options of nvcc that say nothing of the code for the GPU, or what is said otherwise here.
_OF_NVCC = (
    "-O",
    "-arch",
    "--gpu-architecture",
    "-gencode",
    "--generate-code",
    "-Xcompiler",
    "-ccbin",
    "-W",
    "-w",
)


_INCLUDE = re.compile(r"#\s*include\s*<([^>]+)>")


@dataclass(frozen=True)
class CudaCode:
    """What NVRTC is given.

    Attributes:
        text: The kernel's file.
        name: Its name, for messages.
        kernel: Name of the kernel, with its template's arguments if it has any.
        macros: What is defined behind the file's first headers.
        options: Options of the compiler.
        folder: Where included files are.
        symbols: ``__constant__`` arrays that are wanted.
    """

    text: str
    name: str
    kernel: str
    macros: Mapping[str, Any]
    options: Sequence[str]
    folder: Path
    symbols: Sequence[str] = ()


@dataclass(frozen=True)
class Compiled:
    """What NVRTC gives.

    Attributes:
        cubin: The machine code.
        ptx: Text of the intermediate code.
        kernel: Name of the kernel in it.
        symbols: Name in it of each array of ``Source.symbols``.
    """

    cubin: bytes
    ptx: str
    kernel: str
    symbols: Mapping[str, str]


def compile_source(source: CudaCode, architecture: str) -> Compiled:
    """Compile for an architecture, such as ``sm_90``.

    Raises:
        CompileError: The source is not accepted.
        MissingExtraError: NVRTC is not installed.
    """
    version = check_nvrtc()
    from cuda.bindings import nvrtc

    options = [f"-arch={_own_code(architecture)}", *(each for each in source.options if not is_of_nvcc(each))]
    options += [f"-I{folder}" for folder in (source.folder, *_header_folders())]
    if version >= FIRST_WITH_HEADERS:
        options += ["--pch", f"--pch-dir={_precompiled().name}"]
    _, program = nvrtc.nvrtcCreateProgram(_program_text(source).encode(), source.name.encode(), 0, [], [])
    names = {name: f"&{name}" for name in source.symbols}
    try:
        for name in (source.kernel, *names.values()):
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        (failed,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if failed != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _log(nvrtc, program)
            raise CompileError(_first_error(log), log)
        lowered = {
            name: nvrtc.nvrtcGetLoweredName(program, names.get(name, name).encode())[1].decode()
            for name in (source.kernel, *names)
        }
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        cubin = bytes(size)
        nvrtc.nvrtcGetCUBIN(program, cubin)
        _, size = nvrtc.nvrtcGetPTXSize(program)
        ptx = bytes(size)
        nvrtc.nvrtcGetPTX(program, ptx)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Compiled(cubin, ptx.rstrip(b"\0").decode(), lowered.pop(source.kernel), lowered)


def check_nvrtc() -> tuple[int, int]:
    """Return the version of NVRTC.

    Raises:
        MissingExtraError: It is not installed.
    """
    version = nvrtc_version()
    if version is None:
        raise MissingExtraError("Compiling CUDA kernels", "cuda")
    return version


def is_of_nvcc(option: str) -> bool:
    """Tell whether an option of a description is one of nvcc that is left out."""
    return option.startswith(_OF_NVCC)


def _own_code(architecture: str) -> str:
    """Return the architecture with what only its own devices run, such as Hopper's ``wgmma``: ``sm_90a``."""
    is_plain = architecture[-1:].isdigit()
    return f"{architecture}a" if is_plain and compute_capability(architecture) >= 90 else architecture


def _program_text(source: CudaCode) -> str:
    """Return the source with the macros behind its first headers, up to which NVRTC keeps it precompiled."""
    lines = source.text.splitlines()
    first = _length_of_preamble(lines, source.folder)
    macros = [f"#define {name} {value}" for name, value in source.macros.items()]
    return "\n".join(
        [
            *lines[:first],
            "#pragma nv_hdrstop",
            *macros,
            f'#line {first + 1} "{source.name}"',
            *lines[first:],
            "",
        ]
    )


def _length_of_preamble(lines: Sequence[str], folder: Path) -> int:
    """Return number of lines up to the last of the headers in angle brackets that stand before anything else.

    Headers of the folder are not among them: they may be written for the macros.
    """
    length, in_comment = 0, False
    for number, line in enumerate(map(str.strip, lines), start=1):
        in_comment = in_comment or line.startswith("/*")
        if in_comment:
            in_comment = "*/" not in line
        elif (included := _INCLUDE.match(line)) and not exists(folder / included[1]):
            length = number
        elif line and not line.startswith("//") and line != "#pragma once":
            break
    return length


@cache
def _precompiled() -> "tempfile.TemporaryDirectory[str]":
    """Tell where this process keeps its headers precompiled; gone when it ends."""
    return tempfile.TemporaryDirectory(prefix="headers-")


@cache
def _header_folders() -> tuple[str, ...]:
    """Tell where CUDA's headers are: those of a wheel, or of a toolkit."""
    found: list[str] = []
    with suppress(ImportError):
        from cuda.pathfinder import find_nvidia_header_directory

        found += filter(None, map(find_nvidia_header_directory, ("cudart", "cccl")))
    return tuple(dict.fromkeys(found))


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "NVRTC said nothing")


def _log(nvrtc: Any, program: Any) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.decode(errors="replace").rstrip("\0\n")


def nvrtc_version() -> tuple[int, int] | None:
    """Return (major, minor) of NVRTC; None where it or its bindings are not installed."""
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # the bindings raise RuntimeError for a library that is not found
        return None
    return major, minor


def nvrtc_compiler() -> dict[str, str]:
    """Its version by its name, as ``KernelSource.compilers`` has it; empty where it is not installed."""
    version = nvrtc_version()
    return {"nvrtc": "{}.{}".format(*version)} if version else {}
