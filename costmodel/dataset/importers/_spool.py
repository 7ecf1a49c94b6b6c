"""Measurements on their way into a dataset: on disk, so that millions of them fit."""

import io
import tempfile
import weakref
from collections.abc import Collection, Iterator
from typing import IO

import msgspec
import pyarrow as pa

from costmodel.records import Measurement

# As Python objects, 8,192 measurements of the project's datasets take some 30 MB; on disk, 2 MB.
MOST_IN_MEMORY = 8192
_CODEC = "zstd"

# Not JSON, which has no NaN.
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Measurement]).decode


class RecordSpool(Collection[Measurement]):
    """Measurements that can be read back one workload after the other.

    Beyond some thousands they are on disk, compressed, in a temporary file without a name.

    Args:
        most_in_memory: How many are kept in memory.
    """

    def __init__(self, most_in_memory: int = MOST_IN_MEMORY) -> None:
        self._most_in_memory = most_in_memory
        self._waiting: dict[str, list[Measurement]] = {}
        self._waiting_count = self._count = 0
        self._blocks: dict[str, list[tuple[int, int, int]]] = {}
        self._file: IO[bytes] | None = None

    def append(self, record: Measurement) -> None:
        """Add a measurement."""
        self._waiting.setdefault(record.candidate.workload.name, []).append(record)
        self._count += 1
        self._waiting_count += 1
        if self._waiting_count >= self._most_in_memory:
            self._write()

    @property
    def workloads(self) -> set[str]:
        """Names of the workloads that were measured."""
        return self._blocks.keys() | self._waiting.keys()

    def of(self, workload: str) -> Iterator[Measurement]:
        """The measurements of a workload (by name), in the order in which they were added."""
        for offset, size, length in self._blocks.get(workload, ()):
            assert self._file is not None
            self._file.seek(offset)
            yield from _decode(pa.decompress(self._file.read(size), length, _CODEC))
        yield from self._waiting.get(workload, ())

    def close(self) -> None:
        """Forget all of them."""
        if self._file is not None:
            self._file.close()
        self.__init__(self._most_in_memory)  # type: ignore[misc]

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    def __iter__(self) -> Iterator[Measurement]:
        """All of them, by workload."""
        for workload in sorted(self.workloads):
            yield from self.of(workload)

    def __contains__(self, record: object) -> bool:
        """Whether a measurement is there."""
        return isinstance(record, Measurement) and record in self.of(record.candidate.workload.name)

    def _open(self) -> IO[bytes]:
        file = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the spool is there)
        weakref.finalize(self, file.close)
        return file

    def _write(self) -> None:
        """Move what is in memory to the end of the file, but for configs with integers beyond 64 bits."""
        file = self._file = self._file or self._open()
        too_large: dict[str, list[Measurement]] = {}
        for workload, records in self._waiting.items():
            try:
                content = _encode(records)
            except OverflowError:
                too_large[workload] = records
                continue
            offset = file.seek(0, io.SEEK_END)
            size = file.write(pa.compress(content, _CODEC, asbytes=True))
            self._blocks.setdefault(workload, []).append((offset, size, len(content)))
        self._waiting, self._waiting_count = too_large, 0
