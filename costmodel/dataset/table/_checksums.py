"""SHA-256 sums of a dataset's files, in the format of ``sha256sum``."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import is_file

SUMS_NAME = "SHA256SUMS"


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write ``SHA256SUMS`` of these files of the folder, in alphabetical order."""
    _write(folder, {name: sha256_of(folder / name) for name in names})


def add_checksums(folder: Path, names: Iterable[str]) -> None:
    """Name more files in ``SHA256SUMS``, or name them anew; what is said of the others stays."""
    _write(folder, {**read_checksums(folder), **{name: sha256_of(folder / name) for name in names}})


def check_checksum(folder: Path, name: str) -> None:
    """Compare a file of the folder with ``SHA256SUMS``, if there is one that names it.

    Raises:
        CostModelError: They differ, or the file cannot be read.
    """
    file = folder / name
    try:
        digest = sha256_of(file)
    except OSError as error:
        raise CostModelError(f"Cannot read {file}: {error.strerror}. Download or build it again.") from error
    if read_checksums(folder).get(name, digest) != digest:
        raise CostModelError(
            f"{file} must match its checksum in {SUMS_NAME} of {folder}, but does not: it is damaged or was "
            "changed. Download or build it again."
        )


def read_checksums(folder: Path) -> dict[str, str]:
    """Digest of each file that is named."""
    sums = folder / SUMS_NAME
    lines = sums.read_text(errors="replace").splitlines() if is_file(sums) else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    write_whole(folder / SUMS_NAME, text.encode())


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
