"""What the build of a config leaves: machine code, a note of how it is launched, or a log of what failed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from costmodel.errors import InvalidConfigError
from costmodel.files import write_whole
from costmodel.kernels._cubin import resources_by_kernel
from costmodel.reading import exists
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import KernelResources, Outcome


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
