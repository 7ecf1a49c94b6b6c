"""What was read from one file: measurements, choices, and what cannot be believed, with where it is from.

Measurements on their way into a dataset are stored in columns and on disk, so that millions fit.
"""

import io
import json
import tempfile
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple, Self

import msgspec
import pyarrow as pa

from costmodel.dataset.table._files import hash_file
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
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


_BATCH = 4096  # measurements that are objects at once
# About the bytes that rejects may take in memory: a million of short ones.
_MOST_REJECTED = 2**30
_REJECT_BYTES = 1000  # of each, and its entry


class Reject(msgspec.Struct, frozen=True):
    """A record that does not enter.

    Attributes:
        reason: What must hold and does not.
        record: The measurement; of a foreign file, the entry and where it is from.
    """

    reason: str
    record: Measurement | dict[str, Any]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        entry = self.record.get("entry", "") if isinstance(self.record, dict) else ""
        return _REJECT_BYTES + len(str(entry))


@dataclass(frozen=True)
class ChosenConfig:
    """A config that somebody chose as the best, without its latency or what it was chosen among.

    Attributes:
        candidate: The config, and of what it is one.
        platform: For where it was chosen.
    """

    candidate: Candidate
    platform: Platform


@dataclass(frozen=True)
class Repair:
    """What an importer did not read as it is written.

    Attributes:
        reason: A clause.
        count: In how many entries.
    """

    reason: str
    count: int = 1


@dataclass(frozen=True)
class Assumption:
    """What an importer takes for given because the file does not say it.

    Attributes:
        text: What it is, and how to say it, as sentences.
    """

    text: str


@dataclass(frozen=True)
class Overhead:
    """What an entry says of how long it took to measure.

    Attributes:
        ratio: That time / the sum of its repeats, as if both were in the unit that the format has.
    """

    ratio: float


# What an importer yields; measurements one by one, or many of them in columns.
Entry = Measurement | Records | ChosenConfig | Reject | Repair | Assumption | Overhead


@dataclass(frozen=True)
class FileContents:
    """What was read from one file.

    Attributes:
        path: The file.
        measurements: What can be believed so far.
        rejects: What cannot.
        choices: Configs without a latency: no measurements, and no part of a dataset.
        configs: By name of a workload whose space the file claims to cover, the configs that it has.
        repairs: What was read otherwise than it is written, or left out of what was read; how often.
        assumptions: What was taken for given, as sentences.
        closed: Whether whoever wrote it came to the end.
        overhead: Median over entries of the time that measuring took / the sum of the repeats; NaN where
            no entry says it.
    """

    path: Path
    measurements: RecordSpool
    rejects: Sequence[Reject] = ()
    choices: Sequence[ChosenConfig] = ()
    configs: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    assumptions: Sequence[str] = ()
    closed: bool = True
    overhead: float = nan

    @classmethod
    def of(
        cls,
        path: Path,
        entries: Iterable[Entry],
        configs: Mapping[str, int] | None = None,
        *,
        closed: bool = True,
    ) -> Self:
        """Keep all that an importer yields.

        Raises:
            CostModelError: More is rejected than memory should hold.
        """
        measurements = RecordSpool()
        waiting: list[Measurement] = []
        rejects: list[Reject] = []
        choices: list[ChosenConfig] = []
        assumptions: list[str] = []
        repairs = Counter[str]()
        overheads: list[float] = []
        left = _MOST_REJECTED
        for entry in entries:
            match entry:
                case Measurement():
                    waiting.append(entry)
                    if len(waiting) == _BATCH:
                        rejects += _keep(waiting, measurements)
                        waiting = []
                case Records():
                    rejects += _keep(waiting, measurements)
                    waiting = []
                    measurements.append(entry)
                case Reject():
                    rejects.append(entry)
                    left -= entry.size
                    if left < 0:
                        raise CostModelError(
                            f"{path} must be a file of measurements, but more than {len(rejects):,} of its "
                            f"entries are not; the first because {rejects[0].reason}. Check the file and "
                            "the options that describe it."
                        )
                case ChosenConfig():
                    choices.append(entry)
                case Repair(reason, count):
                    repairs[reason] += count
                case Assumption(text):
                    assumptions.append(text)
                case Overhead(ratio):
                    overheads.append(ratio)
        rejects += _keep(waiting, measurements)
        overhead = median(overheads) if overheads else nan
        return cls(
            path, measurements, rejects, choices, configs or {}, repairs, assumptions, closed, overhead
        )


def _keep(measurements: list[Measurement], spool: RecordSpool) -> list[Reject]:
    """Add measurements to a spool, but for those whose numbers do not fit into columns."""
    try:
        spool.append(Records.of(measurements))
    except OverflowError:
        if len(measurements) == 1:
            return [Reject("each number must fit into 64 bits", measurements[0])]
        return [reject for each in measurements for reject in _keep([each], spool)]
    return []


_LONGEST = 4096  # characters of an entry that a reject shows


@dataclass(frozen=True)
class Origin:
    """A foreign file: each row of a dataset, and each reject, can be traced to it.

    Attributes:
        name: The file's name.
        sha256: Its checksum.
    """

    name: str
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the file's name and checksum.

        Raises:
            CostModelError: It cannot be read.
        """
        try:
            return cls(path.name, hash_file(path))
        except OSError as error:
            raise CostModelError(f"Cannot read {path}: {error.strerror}.") from None

    @property
    def text(self) -> str:
        """The name and the beginning of the checksum, for the software versions of a platform."""
        return f"{self.name} sha256:{self.sha256[:16]}"

    def reject(self, reason: str, entry: Any, number: int | None = None) -> Reject:
        """Return what cannot be believed of this file.

        Args:
            reason: What must hold and does not.
            entry: What stands there; the beginning of a long one is kept.
            number: Its row or line, from 1, where entries have one.
        """
        place = {} if number is None else {"number": number}
        shown = _text(entry)[:_LONGEST].encode(errors="replace").decode()
        return Reject(reason, {"file": self.name, "sha256": self.sha256, **place, "entry": shown})


def _text(entry: Any) -> str:
    try:
        return entry if isinstance(entry, str) else json.dumps(entry, default=str)
    except RecursionError:
        return "nested too deeply to be shown"
