"""Files that are written whole or not at all."""

import os
from pathlib import Path

from costmodel.errors import CostModelError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file at once; its folder is made. A killed process leaves the old file, or none.

    It is written beside its place, as ``<name>.partial``, and renamed once the disk has all of it. One
    process at a time may write a file.

    Raises:
        CostModelError: It cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error
