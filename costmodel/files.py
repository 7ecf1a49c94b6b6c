"""Files that are written whole or not at all, and names that outlast a power cut."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costmodel.errors import CostModelError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file at once; its folder is made. A killed process leaves the old file, or none.

    Of several writers at once the last one's content stays, whole.

    Raises:
        CostModelError: It cannot be written.
    """
    try:
        with replacing(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write, which takes the place of ``path`` once the disk has all of it.

    It lies in the same folder, which is made, under a name of its own. Where the block raises, or writes no
    file, nothing changes.

    Raises:
        OSError: It cannot be written.
    """
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        if partial.exists():
            sync(partial)
            partial.replace(path)
            sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and those above it; they are on disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Wait until the disk has a file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
