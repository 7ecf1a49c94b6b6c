"""Record stores: files of measurements for one writer at a time, or for several; see ``LineFile``."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from filelock import FileLock, Timeout

from costmodel.arguments import check_path
from costmodel.databases import is_database
from costmodel.decoding import UNDECODABLE
from costmodel.errors import CostModelError
from costmodel.files import make_folder
from costmodel.records._line_file import LineFile, SharedLog, open_log
from costmodel.records._measurement import Measurement

# A process that waits for another one looks so often, or rests so many times as long as a look takes; and it
# gives the other so long from one measurement to the next.
_LOOK_EVERY_S, _REST, _PATIENCE_S = 0.01, 4.0, 60.0
RECORD_STORE = "record store"
encode_measurement = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Measurement).decode


def read_records(path: Path | str) -> Iterator[Measurement]:
    """Read a store from its first measurement to its last, one line at a time and without the writer's lock.

    Stops before a torn tail, so that a store can be read while it is written.

    Args:
        path: The file, or a database as ``SharedRecordStore`` takes it.

    Raises:
        CostModelError: The file cannot be read, is damaged before its last line, or holds a record of another
            schema.
    """
    if is_database(path):
        return _measurements(open_log(path, RECORD_STORE, create=False))
    return _measurements(_line_file(check_path("path", path)))


class RecordStore:
    """A store open for writing, by one process at a time. Use it as a context manager.

    A passing failure, which earlier versions kept, is no answer: its key is free for another measurement.

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

    def __init__(self, path: Path | str) -> None:
        self.path = path = _check_name(path)
        self._lines = _line_file(path)
        self._lock = FileLock(f"{self._lines.path}.lock")
        try:
            make_folder(self._lines.path.parent)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise CostModelError(
                f"Record store {path} must have one writer, but another process is writing to it: wait until "
                "it ends, or write to another file."
            ) from None
        except OSError as error:
            raise CostModelError(f"Cannot write record store {path}: {error.strerror}.") from error
        try:
            self._lines.create()
            self._keys = {each.key for each in _measurements(self._lines) if not each.is_passing}
            self._lines.repair()
        except BaseException:
            self.close()
            raise

    def append(self, measurements: Sequence[Measurement]) -> None:
        """Write measurements and return once they are on disk.

        Raises:
            ValueError: One of the keys is in the store already or twice among the measurements; nothing is
                written then. Ask ``in`` before measuring.
            CostModelError: The disk refuses the write; the store is as it was before.
        """
        given = [each.key for each in measurements if not each.is_passing]
        keys = set(given)
        known = keys & self._keys
        if known or len(keys) < len(given):
            raise ValueError(f"keys must be new and distinct, but got {sorted(known) or 'one key twice'}")
        self._lines.append(list(map(encode_measurement, measurements)))
        self._keys |= keys

    def keys(self) -> frozenset[str]:
        """Keys of all measurements in the store."""
        return frozenset(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def close(self) -> None:
        """Let another process write. May be called twice."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SharedRecordStore:
    """A record store that any number of processes append to, each measurement at once.

    A file is like any record store: what was not killed in the middle of a write is kept, and a torn tail is
    moved out of the way. A database is for processes of several machines. Passing failures, which earlier
    versions kept, are passed over. Safe to use from several threads.

    Args:
        path: The file, whose name ends in ``.jsonl``; or a database, as a path that ends in ``.db`` or as a
            URL such as ``postgresql://host/name``. Made if it is not there.

    Raises:
        CostModelError: The store cannot be opened, or is damaged before its last line.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = path if is_database(path) else _check_name(path)
        self._lines = open_log(path, RECORD_STORE)
        self._lock = threading.RLock()
        self._by_key: dict[str, Measurement] = {}

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Keep measurements; they are on disk when this returns.

        What another process kept meanwhile of the same candidate, platform and visit stays.
        """
        with self._lock, self._lines.locked():
            self.refresh()
            new: dict[str, Measurement] = {}
            for each in measurements:
                if each.key not in self._by_key:
                    new.setdefault(each.key, each)
            self._lines.append([encode_measurement(each) for each in new.values()])
        self.refresh()

    def refresh(self) -> None:
        """Take over what was appended by anyone since the last time."""
        with self._lock:
            if self._lines.start_over_if_replaced():
                self._by_key.clear()
                self._forget_all()
            for measurement in _measurements(self._lines):
                if measurement.key not in self._by_key and not measurement.is_passing:
                    self._by_key[measurement.key] = measurement
                    self._remember(measurement)

    @contextmanager
    def turn(self, key: str, is_over: Callable[[], bool], *, waits: bool = True) -> Iterator[bool]:
        """Take the turn of doing something once for all processes: one measures, the others take it over.

        Nobody waits for a process that is gone, for one that keeps nothing for a minute, or at a barrier: who
        does not come is not missed.

        Args:
            key: What is to be done.
            is_over: Tells whether it is done, by what is stored.
            waits: Whether to wait while another process has the turn.

        Yields:
            Whether it is this process's turn. If not, it is over, or the other process is too slow.
        """
        release, seen, since = None, -1, time.monotonic()
        looked = since
        while not is_over() and (release := self._lines.take_turn(key)) is None and waits:
            now = time.monotonic()
            if len(self._by_key) != seen:
                seen, since = len(self._by_key), now
            if now - since > _PATIENCE_S:
                break
            time.sleep(max(_LOOK_EVERY_S, _REST * (now - looked)))
            looked = time.monotonic()
        if release and is_over():  # by who had the turn, between the look and the turn
            release()
            release = None
        try:
            yield release is not None
        finally:
            if release:
                release()

    def get(self, key: str) -> Measurement | None:
        """The measurement of a key, as of the last time; None if there is none."""
        return self._by_key.get(key)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements as of the last time."""
        with self._lock:
            return tuple(self._by_key.values())

    def _remember(self, measurement: Measurement) -> None:
        """Take note of a measurement that is new here."""

    def _forget_all(self) -> None:
        """Drop what was noted: somebody forgot some of the measurements, and the others come again."""


def _check_name(path: Path | str) -> Path:
    path = check_path("path of a record store", path)
    if path.suffix != ".jsonl":
        raise CostModelError(f"A record store must be a .jsonl file, but got {path}.")
    return path


def _line_file(path: Path) -> LineFile:
    return LineFile(path, RECORD_STORE)


def _measurements(lines: LineFile | SharedLog) -> Iterator[Measurement]:
    """The measurements of the lines that were not read yet."""
    for number, record in lines.read_new():
        yield decode_measurement(record, f"{lines.path}, line {number}")


def decode_measurement(record: bytes, place: str) -> Measurement:
    """Decode a record.

    Args:
        record: JSON of a measurement.
        place: Where it is from, for an error.

    Raises:
        CostModelError: It is of another schema.
    """
    try:
        return _decode(record)
    except UNDECODABLE as error:
        raise CostModelError(f"{place} is no measurement of this version: {error}.") from None
