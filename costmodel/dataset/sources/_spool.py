"""Measurements on their way into a dataset, stored in columns and on disk so that millions fit."""

import io
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator
from typing import IO, Any, NamedTuple

import pyarrow as pa

from costmodel.dataset.table._records import Records
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform

# Rows of the project's datasets take some 15 MB.
MOST_IN_MEMORY = 32_768
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class _Block(NamedTuple):
    """Where the measurements of a workload lie in the file, and their platforms, which are few."""

    offset: int
    platforms: tuple[Platform, ...]


class RecordSpool(Collection[Measurement]):
    """Measurements that can be read back one workload after the other.

    Beyond some thousands they are on disk, compressed, in a temporary file without a name.

    Args:
        most_in_memory: How many are kept in memory.
    """

    def __init__(self, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._most_in_memory = most_in_memory
        self._waiting: dict[str, list[Records]] = {}
        self._waiting_count = self._count = 0
        self._blocks: dict[str, list[_Block]] = {}
        self._file: IO[bytes] | None = None

    def append(self, records: Records) -> None:
        """Add measurements."""
        for workload, part in records.by_workload():
            self._waiting.setdefault(workload, []).append(part)
        self._count += len(records)
        self._waiting_count += len(records)
        if self._waiting_count >= self._most_in_memory:
            self._write()

    @classmethod
    def of_parts(cls, parts: Iterable[Records]) -> "RecordSpool":
        """Return all measurements of some parts."""
        spool = cls()
        for part in parts:
            spool.append(part)
        return spool

    @property
    def workloads(self) -> set[str]:
        """Names of the workloads that were measured."""
        return self._blocks.keys() | self._waiting.keys()

    def of(self, workload: str) -> Records:
        """Return the measurements of a workload (by name), in the order in which they were added."""
        written = [self._read(block) for block in self._blocks.get(workload, ())]
        return Records.concat([*written, *self._waiting.get(workload, ())])

    def close(self) -> None:
        """Forget all of them."""
        if self._file is not None:
            self._file.close()
        self.__init__(self._most_in_memory)  # type: ignore[misc]

    def __len__(self) -> int:
        """Return how many there are."""
        return self._count

    def __iter__(self) -> Iterator[Measurement]:
        """Yield all of them, by workload."""
        for workload in sorted(self.workloads):
            yield from self.of(workload).measurements()

    def __contains__(self, record: object) -> bool:
        """Tell whether a measurement is there."""
        return isinstance(record, Measurement) and any(
            each == record for each in self.of(record.candidate.workload.name).measurements()
        )

    def _open(self) -> IO[bytes]:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the spool is there)
        weakref.finalize(self, file.close)
        return file

    def _write(self) -> None:
        """Move what is in memory to the end of the file."""
        file = self._file = self._file or self._open()
        for workload, parts in self._waiting.items():
            records = Records.concat(parts)
            block = _Block(file.seek(0, io.SEEK_END), records.platforms)
            for table in (records.candidates, records.rows):
                _write_table(file, table)
            self._blocks.setdefault(workload, []).append(block)
        self._waiting, self._waiting_count = {}, 0

    def _read(self, block: _Block) -> Records:
        assert self._file is not None
        self._file.seek(block.offset)
        candidates, rows = (pa.ipc.open_stream(self._file).read_all() for _ in range(2))
        return Records(candidates, block.platforms, rows)


def _write_table(file: IO[bytes], table: Any) -> None:
    with pa.ipc.new_stream(file, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
