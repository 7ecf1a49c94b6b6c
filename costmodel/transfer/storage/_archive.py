"""Named members in one zip file, read within a limit: a file that would fill the memory is refused."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import open_file

# Thirty times the largest model that learns from sm-budgets.
MOST_BYTES = 2**30


def write_archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write members, compressed. A file that is there is replaced at once.

    Raises:
        CostModelError: The file cannot be written.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    write_whole(path, buffer.getvalue())


def read_archive(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """All members.

    What is unpacked is bounded by the sizes that the file declares, and these by ``most_bytes``: zipfile
    reads no member further than its declared size, and finds by its checksum that it was cut.

    Args:
        path: The file.
        most_bytes: Most bytes of all members together, unpacked.

    Raises:
        CostModelError: The members are larger.
        zipfile.BadZipFile: The file is damaged, or is no zip file.
    """
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        _check(path, sum(entry.file_size for entry in entries), most_bytes)
        return {entry.filename: archive.read(entry) for entry in entries}


def read_member(path: Path, name: str, most_bytes: int = MOST_BYTES) -> bytes:
    """One member; errors are those of ``read_archive``, and KeyError where there is none of this name."""
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(name)
        _check(path, entry.file_size, most_bytes)
        return archive.read(entry)


def _check(path: Path, size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise CostModelError(
            f"A model must unpack to at most {most_bytes:,} bytes, but {path} has {size:,}. If you know who "
            "wrote it, `load_model(path, most_bytes=...)` loads larger ones."
        )
