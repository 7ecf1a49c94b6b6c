"""Append-only files of JSON lines that survive killed processes and power cuts.

A line is ``{"crc32": "0f1e2d3c", "record": {...}}``, the checksum being that of the record's bytes. What a
kill or a power cut leaves of a line at the end of the file is a torn tail: readers stop before it, and
whoever writes next moves it to ``<file>.torn``, with a warning.
"""

import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
from filelock import FileLock

from costmodel.databases import is_database
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.files import behind_link, make_folder, sync, write_whole
from costmodel.liveness import take_byte
from costmodel.opening import lines_of, open_file
from costmodel.reading import MOST_LINE, MOST_TOTAL, exists, refusing
from costmodel.records._identity import content_id


class _DamagedLineError(Exception):
    """A line is not what a writer wrote."""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    crc32: str
    record: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_BLOCK = 1 << 16
_TAIL = 256  # bytes by which a file is known again


class LineFile:
    """A file of records in JSON, for one writer at a time and any number of readers.

    Args:
        path: The file.
        what: What it is called in messages, as in ``record store``.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = behind_link(path)
        self._what = what
        self._read_to = self._lines_read = 0
        self._tail = b""  # the end of what was read
        self._inode: int | None = None

    def start_over_if_replaced(self) -> bool:
        """Read from the first line again if another file took the place of the one that was read."""
        try:
            found = self.path.stat()
            was_replaced = self._inode not in (None, found.st_ino) or self._has_other_lines(found.st_size)
        except OSError:
            return False
        if was_replaced:
            self._read_to = self._lines_read = 0
            self._tail = b""
        self._inode = found.st_ino
        return was_replaced

    def _has_other_lines(self, size: int) -> bool:
        """Whether what was read is gone: a file that is deleted and made again may have the same number."""
        if size <= self._read_to:
            return size < self._read_to
        with open_file(self.path) as file:
            file.seek(self._read_to - len(self._tail))
            return file.read(len(self._tail)) != self._tail

    def create(self) -> None:
        """Make the file and its folders, where they are not there; their names are on disk then.

        Raises:
            CostModelError: They cannot be made.
        """
        try:
            make_folder(self.path.parent)
            self.path.touch()
            sync(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, records: Sequence[bytes]) -> None:
        """Write records, JSON each; they are on disk when this returns.

        Raises:
            CostModelError: The disk refuses them; the file is as it was before.
        """
        data = memoryview(b"".join(map(_encode_line, records)))
        try:
            with self.path.open("ab", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                try:
                    _write_all(file, data)
                    os.fsync(file.fileno())
                except BaseException:
                    # Half a line left here would be damage in the middle after the next append.
                    file.truncate(end)
                    raise
        except OSError as error:
            raise self._unwritable(error) from error

    def read_new(self) -> Iterator[tuple[int, bytes]]:
        """Records behind those that were read before, each with the number of its line, from 1.

        Stops before a torn tail, which may be a line that is being written.

        Raises:
            CostModelError: The file cannot be read, or is damaged before its last line.
        """
        with refusing(self.path, f"a {self._what}"), open_file(self.path) as file:
            if self._inode not in (None, os.fstat(file.fileno()).st_ino):
                return  # it was replaced just now
            file.seek(self._read_to)
            for line in lines_of(file, most_bytes=MOST_LINE, most_total=MOST_TOTAL):
                try:
                    record = _parse_line(line)
                except _DamagedLineError as error:
                    if line.endswith(b"\n") and file.read(1):
                        raise CostModelError(
                            f"{self.path}, line {self._lines_read + 1} is damaged ({error}): restore the "
                            "file from a copy, or move that line out of it."
                        ) from None
                    return
                self._read_to += len(line)
                self._lines_read += 1
                self._tail = line[-_TAIL:]
                yield self._lines_read, record

    def repair(self) -> None:
        """Move a torn tail out of the file.

        Raises:
            CostModelError: It cannot be moved.
        """
        try:
            move_torn_tail(self.path, _is_damaged)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> CostModelError:
        return CostModelError(f"Cannot write {self._what} {self.path}: {error.strerror}.")


class SharedLineFile(LineFile):
    """A ``LineFile`` that several processes append to. Opening makes it, and repairs a torn tail.

    Who deletes it has forgotten all of it, also for programs that have it open: they make it anew.

    Whoever appends holds a lock for that moment.

    Raises:
        CostModelError: The file cannot be opened.
    """

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self._lock = FileLock(f"{self.path}.lock")
        self.create()
        with self.locked():
            self.repair()

    def append(self, records: Sequence[bytes]) -> None:
        """Write records behind those of others; see ``LineFile.append``."""
        with self.locked():
            self._create_if_deleted()
            self.repair()
            super().append(records)

    def start_over_if_replaced(self) -> bool:
        """See ``LineFile``; a file that was deleted is replaced by one without records."""
        self._create_if_deleted()
        return super().start_over_if_replaced()

    def _create_if_deleted(self) -> None:
        if not exists(self.path):
            self.create()

    def take_turn(self, key: str) -> Callable[[], None] | None:
        """Take what only one process is to do, until the function that is returned is called.

        Returns:
            None where another process has it, and lives.
        """
        return take_byte(Path(f"{self.path}.turns"), int(content_id(key)[:15], 16))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from appending; may be held while appending."""
        try:
            self._lock.acquire()
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            yield
        finally:
            self._lock.release()


class SharedLog(Protocol):
    """What any number of processes append records in JSON to, and where they take turns.

    Attributes:
        path: Where it is.
    """

    path: Any

    def append(self, records: Sequence[bytes]) -> None:
        """Write records behind those of others; they are on disk when this returns."""

    def read_new(self) -> Iterator[tuple[int, bytes]]:
        """Records behind those that were read before, each with its number."""
        ...

    def start_over_if_replaced(self) -> bool:
        """Read from the first record again if somebody took some away."""
        ...

    def locked(self) -> AbstractContextManager[object]:
        """Keep other processes from appending; may be held while appending."""
        ...

    def take_turn(self, key: str) -> Callable[[], None] | None:
        """Take what only one process is to do, until what is returned is called; None if another has it."""
        ...


def open_log(place: Path | str, what: str, *, create: bool = True) -> SharedLog:
    """Open a log: a file of lines, or a table of the database at a URL or a path that ends in ``.db``.

    Args:
        place: Where it is.
        what: What it is called in messages, as in ``record store``.
        create: Make the file of a database if it is not there. A file of lines is made in any case.

    Raises:
        CostModelError: It cannot be opened.
    """
    if not is_database(place):
        return SharedLineFile(Path(place), what)
    from costmodel.records._table_log import TableLog

    return TableLog(str(place), what, create=create)


def move_torn_tail(path: Path, is_torn: Callable[[bytes], bool]) -> None:
    """Move the last line of a file to ``<path>.torn``, if it is torn; whoever calls this keeps others away.

    Args:
        path: The file.
        is_torn: Whether a line was not written whole.

    Raises:
        OSError: It cannot be moved.
    """
    with open_file(path) as file:
        start = _start_of_last_line(file)
        file.seek(start)
        tail = file.read()
    if tail and is_torn(tail):
        _move_tail(path, start)


def rewrite_lines(path: Path, records: Sequence[bytes]) -> None:
    """Put a file with these records in the place of another; whoever calls this keeps others from appending.

    Raises:
        CostModelError: It cannot be written; the file is as it was before.
    """
    write_whole(path, b"".join(map(_encode_line, records)))


def _encode_line(record: bytes) -> bytes:
    return _encode(_Line(_crc32(record), msgspec.Raw(record))) + b"\n"


def _parse_line(line: bytes) -> bytes:
    """The record of a line.

    Raises:
        _DamagedLineError: The bytes are not those of a complete line.
    """
    if not line.endswith(b"\n"):
        raise _DamagedLineError("no newline at its end")
    try:
        parsed = _decode(line)
    except UNDECODABLE as error:
        raise _DamagedLineError(str(error)) from None
    record = bytes(parsed.record)
    if parsed.crc32 != _crc32(record):
        raise _DamagedLineError("its checksum differs")
    return record


def _is_damaged(line: bytes) -> bool:
    try:
        _parse_line(line)
    except _DamagedLineError:
        return True
    return False


def _crc32(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"


def _write_all(file: FileIO, data: memoryview) -> None:
    """Write every byte; one call may write only some of them."""
    while data:
        data = data[os.write(file.fileno(), data) :]


def _start_of_last_line(file: BinaryIO) -> int:
    """Offset behind the last newline that another byte follows."""
    end = file.seek(0, os.SEEK_END)
    position = max(0, end - 1)  # the newline that ends the last line does not count
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        found = file.read(position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _move_tail(path: Path, end: int) -> None:
    """Append the bytes behind ``end`` to ``<path>.torn``, then cut them off, and say so."""
    torn_path = Path(f"{path}.torn")
    with path.open("r+b") as file, torn_path.open("ab") as torn:
        file.seek(end)
        tail = file.read()
        torn.write(tail)
        torn.flush()
        os.fsync(torn.fileno())
        sync(torn_path.parent)
        file.truncate(end)
        os.fsync(file.fileno())
    warnings.warn(
        f"{path} must end in a whole line, but its last one was cut short: its {len(tail):,} bytes are in "
        f"{torn_path} now, and what they told will be done again.",
        RuntimeWarning,
        stacklevel=2,
    )
