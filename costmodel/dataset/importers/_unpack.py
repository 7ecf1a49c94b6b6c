"""Files, plain or gzipped, as bytes of a bounded size."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_SET, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError

Stream = BufferedReader

_GZIP = b"\x1f\x8b"
_MOST_LINE = 64 * 2**20
MOST_TOTAL = 16 * 2**30
# JSON of tuners packs to a fifth up to a thirtieth; gzip packs zeros to a thousandth.
_MOST_RATIO = 200
_MOST_UNASKED = 256 * 2**20  # bytes, whatever the ratio


@contextmanager
def unpacked(path: Path, what: str = "file") -> Iterator[tuple[Stream, bool]]:
    """Open a file, and unpack what is gzipped while it is read.

    Args:
        path: The file.
        what: What to call it in messages.

    Yields:
        The open file, and whether it is gzipped.

    Raises:
        CostModelError: The file cannot be read, also while the caller reads it, or unpacks to far too much.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            yield (BufferedReader(_Unpacking(path, file)) if packed else file), packed
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CostModelError(f"Cannot read {what} {path}: {reason}. Copy the file again.") from None


class _Unpacking(RawIOBase):
    """What a gzipped file unpacks to, until that is too much for its size."""

    def __init__(self, path: Path, file: BufferedReader) -> None:
        self._path, self._file = path, gzip.GzipFile(fileobj=file)
        self._most = max(_MOST_UNASKED, _MOST_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        if self._file.tell() > self._most:
            raise CostModelError(
                f"{self._path} must unpack to at most {_MOST_RATIO} times its size, but exceeds "
                f"{self._most:,} bytes and may be meant to exhaust memory. If you trust it, unpack it first."
            )
        return count


def lines_of(file: Stream, *, most_bytes: int, most_total: int) -> Iterator[bytes]:
    """Lines with their ends, one at a time.

    Args:
        file: An open file.
        most_bytes: Longest line.
        most_total: Most bytes of all lines; a small gzipped file can unpack to any size.

    Raises:
        ValueError: A line, or the file, is longer.
    """
    total = 0
    while line := file.readline(most_bytes + 1):
        total += len(line)
        if len(line) > most_bytes:
            raise ValueError(f"a line must have at most {most_bytes:,} bytes, but one has more")
        if total > most_total:
            raise ValueError(f"it must have at most {most_total:,} bytes unpacked, but has more")
        yield line


def numbered_lines(path: Path, what: str) -> Iterator[tuple[int, bytes]]:
    """Lines of a file that are not empty, one at a time, with their numbers from 1.

    Args:
        path: The file.
        what: What it must be, for messages.

    Raises:
        CostModelError: It cannot be read, or is too large to be that.
    """
    with unpacked(path) as (file, _):
        try:
            lines = lines_of(file, most_bytes=_MOST_LINE, most_total=MOST_TOTAL)
            yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        except ValueError as error:
            raise CostModelError(f"{path} must be {what}, but: {error}.") from None
