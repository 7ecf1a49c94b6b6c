"""The record store: append-only JSON lines that survive a killed process.

``append`` returns once its lines (``_lines.py``) are on disk. Readers stop before a torn tail, and the next
writer moves it to ``<store>.torn``.
"""

import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from filelock import FileLock, Timeout

from costmodel.errors import CostModelError
from costmodel.records._lines import DamagedLineError, encode_line, move_tail, parse_line
from costmodel.records._measurement import Measurement

_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(Measurement).decode


def read_records(path: Path) -> Iterator[Measurement]:
    """Read a store from its first measurement to its last, one line at a time and without the writer's lock.

    Stops before a torn tail, so that a store can be read while it is written.

    Raises:
        CostModelError: The file cannot be read, is damaged before its last line, or holds a record of another
            schema.
    """
    return (measurement for _, measurement in _scan(path))


class RecordStore:
    """A store open for writing, by one process at a time. Use it as a context manager.

    Opening creates the file and its parent directories, repairs a torn tail and reads the keys.

    Args:
        path: The store's file; its name ends in ``.jsonl``.

    Raises:
        CostModelError: Another process writes to this store, the file cannot be opened, is damaged before its
            last line, or holds a record of another schema.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, RecordStore(Path(folder) / "a.jsonl") as store:
        ...     len(store.keys())
        0
    """

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise CostModelError(f"A record store must be a .jsonl file, but got {path}.")
        self.path = path
        self._lock = FileLock(f"{path}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._file = path.open("ab", buffering=0)
        except Timeout:
            raise CostModelError(
                f"Record store {path} must have one writer, but another process is writing to it: wait until "
                "it ends, or write to another file."
            ) from None
        except OSError as error:
            self._lock.release()
            raise CostModelError(f"Cannot write record store {path}: {error.strerror}.") from error
        try:
            self._keys = self._recover()
        except BaseException:
            self.close()
            raise

    def _recover(self) -> set[str]:
        """Read the keys and move a torn tail out of the file."""
        keys, end = set(), 0
        for end, measurement in _scan(self.path):  # noqa: B007 (end is used after the loop)
            keys.add(measurement.key)
        if end < self._file.seek(0, os.SEEK_END):
            move_tail(self.path, end)
        _sync_directory(self.path.parent)
        return keys

    def append(self, measurements: Sequence[Measurement]) -> None:
        """Write measurements and return once they are on disk.

        Raises:
            ValueError: One of the keys is in the store already or twice among the measurements; nothing is
                written then. Ask ``in`` before measuring.
            CostModelError: The disk refuses the write; the store is as it was before.
        """
        keys = {measurement.key for measurement in measurements}
        known = keys & self._keys
        if known or len(keys) < len(measurements):
            raise ValueError(f"keys must be new and distinct, but got {sorted(known) or 'one key twice'}")
        data = memoryview(b"".join(encode_line(_encode(measurement)) for measurement in measurements))
        end = self._file.seek(0, os.SEEK_END)
        try:
            _write_all(self._file, data)
            os.fsync(self._file.fileno())
        except BaseException as error:
            # Whatever interrupts: half a line left here would be damage in the middle after the next append.
            self._file.truncate(end)
            if isinstance(error, OSError):
                raise CostModelError(f"Cannot write record store {self.path}: {error.strerror}.") from error
            raise
        self._keys |= keys

    def keys(self) -> frozenset[str]:
        """Keys of all measurements in the store."""
        return frozenset(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def close(self) -> None:
        """Let another process write. May be called twice."""
        self._file.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _scan(path: Path) -> Iterator[tuple[int, Measurement]]:
    """Each measurement with the file offset behind its line; stops before a torn tail."""
    end = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    measurement = _decode_record(parse_line(line))
                except DamagedLineError as error:
                    # A line without newline was the last one when it was read, even if a writer is active.
                    if line.endswith(b"\n") and file.read(1):
                        raise CostModelError(
                            f"{path}, line {number} is damaged ({error}): restore the file from a copy, or "
                            "move that line out of it."
                        ) from None
                    return
                except msgspec.ValidationError as error:
                    raise CostModelError(
                        f"{path}, line {number} is no measurement of this version: {error}."
                    ) from None
                end += len(line)
                yield end, measurement
    except OSError as error:
        raise CostModelError(f"Cannot read record store {path}: {error.strerror}.") from error


def _write_all(file: FileIO, data: memoryview) -> None:
    """Write every byte; one call may write only some of them."""
    while data:
        data = data[file.write(data) :]


def _sync_directory(path: Path) -> None:
    """Make the names of new files in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
