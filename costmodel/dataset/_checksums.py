"""SHA-256 sums of a dataset's files, in the format of ``sha256sum``."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from costmodel.dataset._schema import FILE_NAME
from costmodel.errors import CostModelError

SUMS_NAME = "SHA256SUMS"


def parquet_file(path: Path) -> Path:
    """The parquet file of a dataset that is given as a folder or as that file.

    Raises:
        CostModelError: There is none.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise CostModelError(
            f"A dataset must be a folder with {FILE_NAME} or a parquet file: {file} is not there."
        )
    return file


def dataset_hash(path: Path) -> str:
    """SHA-256 of a dataset's parquet file, 64 hexadecimal digits.

    Raises:
        CostModelError: The file is not there.
    """
    return sha256_of(parquet_file(path))


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write ``SHA256SUMS`` of these files of the folder, in alphabetical order."""
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / SUMS_NAME).write_text("".join(lines))


def check_checksum(file: Path) -> None:
    """Compare a file with the ``SHA256SUMS`` beside it, if there is one that names it.

    Raises:
        CostModelError: They differ.
    """
    sums = file.with_name(SUMS_NAME)
    lines = sums.read_text(errors="replace").splitlines() if sums.is_file() else []
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if expected.get(file.name, digest := sha256_of(file)) != digest:
        raise CostModelError(
            f"{file} must be the file that {sums.name} beside it names, but its checksum differs: it "
            "is damaged or was changed; get it again."
        )


def sha256_of(file: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
