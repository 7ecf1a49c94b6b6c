"""Files opened for reading: regular ones alone, unpacked as they are read, and no further than they may.

What fails here raises ``OSError`` or ``ValueError``; ``costmodel.reading.refusing`` makes an error of it that
a user can act on.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from io import SEEK_SET, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.formats import HEAD_BYTES

if TYPE_CHECKING:
    import sqlite3

Stream = BufferedReader

# What unpacking raises where a gzipped file is cut off or damaged.
DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"
_SQLITE_HEAD = 100  # bytes
# JSON of tuners packs to a fifth up to a thirtieth; gzip packs zeros to a thousandth.
_MOST_RATIO = 200
MOST_UNASKED = 256 * 2**20  # bytes, whatever the ratio
_KINDS = {
    stat.S_ISDIR: "Is a directory",
    stat.S_ISFIFO: "It is a named pipe, not a file",
    stat.S_ISCHR: "It is a device, not a file",
    stat.S_ISBLK: "It is a device, not a file",
    stat.S_ISSOCK: "It is a socket, not a file",
}


def open_regular(path: Path, buffering: int = -1) -> Any:
    """Open a regular file for reading bytes.

    Args:
        path: The file.
        buffering: As of ``open``: 0 for none.

    Raises:
        OSError: There is none, or it is none: opening a pipe waits for a writer, and a device never ends.
        ValueError: No file can have this name.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        check_regular(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb", buffering=buffering)  # noqa: PTH123 (a descriptor; its caller closes it)


def check_regular(mode: int) -> None:
    """Check that a mode, as of ``os.stat``, is that of a regular file.

    Raises:
        OSError: It is not, and says what it is.
    """
    for is_of_kind, name in _KINDS.items():
        if is_of_kind(mode):
            raise OSError(0, name)


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading, and close it; see ``open_regular``."""
    with open_regular(path) as file:
        yield file


@contextmanager
def open_unpacked(path: Path) -> Iterator[tuple[Stream, bool]]:
    """Open a file, and unpack what is gzipped while it is read. Use it in ``refusing``.

    Yields:
        The open file, and whether it is gzipped.

    Raises:
        OSError: As ``open_file``; so are its others.
        CostModelError: While it is read: it unpacks to far too much.
    """
    with open_file(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        yield (BufferedReader(_Unpacking(path, file)) if packed else file), packed


@contextmanager
def open_sqlite(path: Path) -> "Iterator[sqlite3.Connection | None]":
    """Open an SQLite database to read its tables. Use it in ``refusing``.

    It is not written, locked or recovered, texts that are no UTF-8 are mended, and its schema may call only
    what can do no harm.

    Yields:
        The connection; None if the file is no such database.

    Raises:
        OSError: As ``open_file``.
        ValueError: Its end is missing, of which SQLite reads a last page as if it were empty.
    """
    import sqlite3

    with open_file(path) as file:
        head = file.read(_SQLITE_HEAD)
    if not head.startswith(_SQLITE):
        yield None
        return
    if path.stat().st_size < _size_told(head):
        raise ValueError(f"it should have {_size_told(head):,} bytes, but its end is missing")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema=OFF")
        yield connection


def _size_told(head: bytes) -> int:
    """Bytes of a database by its header (https://sqlite.org/fileformat.html, 1.3); 0 if it does not tell."""
    if len(head) < _SQLITE_HEAD:
        return _SQLITE_HEAD
    page, pages = int.from_bytes(head[16:18], "big"), int.from_bytes(head[28:32], "big")
    is_valid = head[24:28] == head[92:96]
    return (1 << 16 if page == 1 else page) * pages if is_valid else 0


def lines_of(file: Stream, *, most_bytes: int, most_total: int) -> Iterator[bytes]:
    """Read lines with their ends, one at a time.

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


def most_unpacked(path: Path) -> int:
    """Return the most bytes that a packed file may unpack to without being taken for an attack."""
    return max(MOST_UNASKED, _MOST_RATIO * path.stat().st_size)


class _Unpacking(RawIOBase):
    """What a gzipped file unpacks to, until that is too much for its size."""

    def __init__(self, path: Path, file: BufferedReader) -> None:
        self._path, self._file = path, gzip.GzipFile(fileobj=file)
        self._most = most_unpacked(path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        part = self._file.read1(len(buffer))  # keeps what stands before a place that cannot be unpacked
        buffer[: len(part)] = part
        if self._file.tell() > self._most:
            raise CostModelError(
                f"{self._path} must unpack to at most {_MOST_RATIO} times its size, but exceeds "
                f"{self._most:,} bytes and may be meant to exhaust memory. If you trust it, unpack it first."
            )
        return len(part)


def read_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked as far as it goes."""
    head = b""
    with open_unpacked(path) as (file, _), suppress(*DAMAGE):
        while len(head) < HEAD_BYTES and (more := file.read1(HEAD_BYTES - len(head))):
            head += more
    return head
