"""A file of JSON lines that several processes append to, and that survives those that are killed.

Each line is ``{"crc32": "0f1e2d3c", "entry": {...}}``, the checksum being that of the entry's bytes. Whoever
appends holds the lock for that moment. What a kill or a power cut left of a line at the end is moved to
``<file>.torn`` before anything else is written.
"""

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from filelock import FileLock

from costmodel.errors import CostModelError


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    crc32: str
    entry: msgspec.Raw


_decode = msgspec.json.Decoder(_Line).decode


class Journal:
    """An append-only file of JSON entries.

    Opening creates the file and its parent directories and repairs a torn tail.

    Raises:
        CostModelError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(f"{path}.lock")
            with self._lock, path.open("a+b") as file:
                self._repair(file)
        except OSError as error:
            raise CostModelError(f"Cannot write the database {path}: {error.strerror}.") from error

    def append(self, entries: Sequence[bytes]) -> None:
        """Write entries, JSON each; they are on disk when this returns.

        Raises:
            CostModelError: The disk refuses them.
        """
        data = b"".join(msgspec.json.encode(_Line(_crc32(e), msgspec.Raw(e))) + b"\n" for e in entries)
        try:
            with self._lock, self.path.open("a+b") as file:
                self._repair(file)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CostModelError(f"Cannot write the database {self.path}: {error.strerror}.") from error

    def read_new(self) -> Iterator[bytes]:
        """Entries behind what was read before, other processes' too; stops before a line that is torn.

        Raises:
            CostModelError: The file cannot be read, or is damaged before its last line.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                for line in file:
                    entry = _entry(line)
                    if entry is None:
                        self._refuse_damage(line, file)
                        return
                    self._read_to += len(line)
                    yield entry
        except OSError as error:
            raise CostModelError(f"Cannot read the database {self.path}: {error.strerror}.") from error

    def _refuse_damage(self, line: bytes, file: BinaryIO) -> None:
        """Raise unless the damaged line is the last: a torn one, or one that is being written."""
        if line.endswith(b"\n") and file.read(1):
            raise CostModelError(
                f"{self.path} is damaged at byte {self._read_to}: restore the file from a copy, or move that "
                "line out of it."
            )

    def _repair(self, file: BinaryIO) -> None:
        """Move a torn last line out of the file; whoever calls holds the lock."""
        start = _start_of_last_line(file)
        file.seek(start)
        tail = file.read()
        if not tail or _entry(tail) is not None:
            return
        with Path(f"{self.path}.torn").open("ab") as torn:
            torn.write(tail)
        file.truncate(start)


def _entry(line: bytes) -> bytes | None:
    """The entry of a line; None if it is not what was written."""
    try:
        parsed = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    entry = bytes(parsed.entry)
    return entry if line.endswith(b"\n") and parsed.crc32 == _crc32(entry) else None


def _crc32(entry: bytes) -> str:
    return f"{zlib.crc32(entry):08x}"


_BLOCK = 1 << 16


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
