"""What the build of a config leaves: machine code, a note of how it is launched, or a log of what failed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from costmodel.errors import InvalidConfigError
from costmodel.files import write_whole
from costmodel.kernels._built import Built
from costmodel.kernels._cubin import resources_by_kernel
from costmodel.kernels._launch_note import LaunchNote
from costmodel.reading import exists
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome


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
