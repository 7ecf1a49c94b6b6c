"""Files that are written whole or not at all."""

from pathlib import Path

from costmodel.errors import CostModelError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file at once; its folder is made. A killed process leaves the old one.

    Raises:
        CostModelError: It cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error
