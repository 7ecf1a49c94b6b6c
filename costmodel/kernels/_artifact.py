"""What the build of a config leaves: machine code, a note of how it is launched, or a log of what failed.

A cubin is an ELF file. Its section ``.nv.info`` lists attributes of functions, of which NVIDIA documents the
meaning (``cuobjdump --dump-resource-usage`` prints them) and not the numbers; those below are checked against
what ``ptxas -v`` says.
"""

import hashlib
import io
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from costmodel.errors import InvalidConfigError
from costmodel.files import write_whole
from costmodel.reading import exists
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import KernelResources, Outcome

_EM_CUDA = 190
_MAGIC = b"\x7fELF"
_REGISTERS, _STACK = 0x2F, 0x11  # attributes: (symbol, value) of 32 bits each
_RESERVED_SHARED_BYTES = 1024  # of each block, by the system
_SIZED = 4  # format of an attribute whose size follows; the others hold 16 bits


class Built(msgspec.Struct, frozen=True):
    """Result of a build.

    Attributes:
        outcome: How the build ended.
        library: Path of the artifact; None if the build failed.
        kernel_hash: Content address of the generated source; empty if there is none.
        resources: Resources that the compiler gave each CUDA kernel.
        error: Why the build failed.
        sha256: Hash of the artifact as its builder wrote it; empty if it is not checked.
    """

    outcome: Outcome
    library: Path | None = None
    kernel_hash: str = ""
    resources: tuple[KernelResources, ...] = ()
    error: str = ""
    sha256: str = ""


class PassedValue(msgspec.Struct, frozen=True, tag="value"):
    """A parameter that is passed by value, independent of the arguments.

    Attributes:
        dtype: Type, as named by NumPy.
        value: The value.
    """

    dtype: str
    value: int | float


class Scratch(msgspec.Struct, frozen=True, tag="scratch"):
    """A parameter that points to work memory, zeroed once, before the first launch.

    Attributes:
        size_bytes: Size in bytes; 0 gives a null pointer.
    """

    size_bytes: int


class Position(msgspec.Struct, frozen=True, tag="argument"):
    """A parameter that is an argument.

    Attributes:
        position: Position of the argument.
    """

    position: int


class LaunchNote(msgspec.Struct, frozen=True):
    """Launch of a kernel, stored in ``<candidate_id>.launch.json`` next to its machine code.

    Attributes:
        kernel: Name of the kernel.
        grid: Number of blocks along each axis.
        block: Number of threads of a block along each axis.
        shared_bytes: Dynamic shared memory of a block, in bytes.
        constants: ``__constant__`` arrays by name, each with the position of the argument that is copied into
            it before the kernel runs.
        parameters: Parameters of the kernel, in order; None for the arguments as they are.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    constants: dict[str, int] = {}
    parameters: tuple[PassedValue | Scratch | Position, ...] | None = None


class CompileError(Exception):
    """A compiler refused a kernel; its message is the first error.

    Args:
        told: The first error.
        log: All that the compiler said.
    """

    def __init__(self, told: str, log: str) -> None:
        super().__init__(told[:300])
        self.log = log


def build_artifact(candidate: Candidate, folder: Path, compile_: Callable[[Path], None]) -> Built:
    """Compile a candidate into ``folder``, unless it is there; failure is an outcome.

    Machine code is ``<candidate_id>.cubin``, and its note, written last, ``<candidate_id>.launch.json``; what
    the compiler said of a failure is ``<candidate_id>.log``.

    Args:
        candidate: What is built.
        folder: Where the files go.
        compile_: Compiles it to a file, see ``write_artifact``; raises ``CompileError`` or
            ``InvalidConfigError`` where it cannot.
    """
    library = folder / f"{candidate.candidate_id}.cubin"
    note = _note(library)
    try:
        if not exists(note):
            compile_(library)
    except InvalidConfigError as error:
        return Built(Outcome.INVALID_CONFIG, error=str(error))
    except CompileError as error:
        write_whole(library.with_suffix(".log"), error.log.encode())
        return Built(Outcome.COMPILE_ERROR, error=str(error))
    cubin, launch = library.read_bytes(), msgspec.json.decode(note.read_bytes(), type=LaunchNote)
    digest = hashlib.sha256(cubin + note.read_bytes()).hexdigest()[:16]
    return Built(Outcome.OK, library, digest, (resources_by_kernel(cubin)[launch.kernel],))


def write_artifact(library: Path, cubin: bytes, launch: LaunchNote) -> None:
    """Write machine code, and then how it is launched."""
    write_whole(library, cubin)
    write_whole(_note(library), msgspec.json.encode(launch))


def _note(library: Path) -> Path:
    return library.with_suffix(".launch.json")


def kernel_resources(library: Path) -> tuple[KernelResources, ...]:
    """Return the resources of each kernel, in order of name; empty without machine code.

    Args:
        library: A cubin, or a shared library that embeds one.
    """
    cubin = embedded_cubin(library.read_bytes())
    return tuple(resources for _, resources in sorted(resources_by_kernel(cubin).items())) if cubin else ()


def resources_by_kernel(cubin: bytes) -> dict[str, KernelResources]:
    """Return the resources of each kernel of a cubin, by its name in there."""
    file = _elf(cubin)
    facts: dict[int, dict[int, int]] = defaultdict(dict)
    for attribute, symbol, value in _attributes(file.get_section_by_name(".nv.info").data()):
        facts[symbol][attribute] = value
    symbols = file.get_section_by_name(".symtab")
    return {
        symbols.get_symbol(symbol).name: KernelResources(known[_REGISTERS], known.get(_STACK, 0))
        for symbol, known in facts.items()
        if _REGISTERS in known
    }


def code_of_kernels(cubin: bytes) -> dict[str, bytes]:
    """Return the instructions of each kernel of a cubin, by its name in there."""
    sections = {each.name: each for each in _elf(cubin).iter_sections()}
    found = {name: sections.get(f".text.{name}") for name in resources_by_kernel(cubin)}
    return {name: section.data() for name, section in found.items() if section is not None}


def static_shared_bytes(cubin: bytes, kernel: str) -> int:
    """Return shared memory that a kernel of a cubin declares itself."""
    file = _elf(cubin)
    section = file.get_section_by_name(f".nv.shared.{kernel}")
    if section is None:
        return 0
    is_counted = file.get_section_by_name(".nv.shared.reserved.0") is not None  # from sm_90 on
    return int(section["sh_size"]) - (_RESERVED_SHARED_BYTES if is_counted else 0)


def _elf(cubin: bytes) -> Any:
    from elftools.elf.elffile import ELFFile  # comes with the extras tvm and cuda

    return ELFFile(io.BytesIO(cubin))


def embedded_cubin(data: bytes) -> bytes:
    """Return machine code for a GPU, up to the end of the file that it is in; empty if there is none."""
    start = data.find(_MAGIC)
    while start >= 0:
        (machine,) = struct.unpack_from("<H", data, start + 18)
        if machine == _EM_CUDA:
            return data[start:]
        start = data.find(_MAGIC, start + 1)
    return b""


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Return attribute, symbol and value of each entry that has a pair of them."""
    offset = 0
    while offset < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, offset)
        if form == _SIZED and size >= 8:
            yield (attribute, *struct.unpack_from("<II", info, offset + 4))
        offset += 4 + (size if form == _SIZED else 0)
