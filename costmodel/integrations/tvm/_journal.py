"""A file of JSON lines that several processes append to, and that survives those that are killed.

Its lines are those of a record store. Whoever appends holds the lock for that moment, and moves what a kill
or a power cut left of a line at the end to ``<file>.torn`` before anything else is written.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

from costmodel.errors import CostModelError
from costmodel.records import DamagedLineError, encode_line, move_tail, parse_line


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
            with self._lock:
                self._repair()
        except OSError as error:
            raise CostModelError(f"Cannot write the database {path}: {error.strerror}.") from error

    def append(self, entries: Sequence[bytes]) -> None:
        """Write entries, JSON each; they are on disk when this returns.

        Raises:
            CostModelError: The disk refuses them.
        """
        data = b"".join(map(encode_line, entries))
        try:
            with self._lock:
                self._repair()
                with self.path.open("ab") as file:
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
                    try:
                        entry = parse_line(line)
                    except DamagedLineError:
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

    def _repair(self) -> None:
        """Move a torn last line out of the file; whoever calls holds the lock."""
        with self.path.open("a+b") as file:
            start = _start_of_last_line(file)
            file.seek(start)
            tail = file.read()
        try:
            if tail:
                parse_line(tail)
        except DamagedLineError:
            move_tail(self.path, start)


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
