"""Read files and report what is wrong with them; building a dataset starts with the same step."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq

from costmodel.dataset.checks._check import Finding, WorkloadRecords
from costmodel.dataset.checks._findings import FindingTallies
from costmodel.dataset.checks._rejects import Rejects
from costmodel.dataset.checks._sieve import Sieve, Validation
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._source import FileContents
from costmodel.dataset.table._columns import lengths_of
from costmodel.dataset.table._files import find_dataset
from costmodel.dataset.table._read import Track, devices_in, iter_records, show_nothing
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.records._platform import Device
from costmodel.threads import SecondThread


@dataclass(frozen=True)
class FileCount:
    """What one file holds.

    Attributes:
        path: The file.
        devices: Names of the devices that it measured.
        records: Its records.
        ok: Those with latencies.
        rejected: Those that its reader rejected.
    """

    path: Path
    devices: tuple[str, ...]
    records: int
    ok: int
    rejected: int


@dataclass(frozen=True)
class Examination:
    """Contents of files, what happened to their records, and what is wrong with them.

    Attributes:
        files: Contents of each file, in the order in which the files were named.
        accepted: Number of measurements that can enter a dataset.
        duplicates: Number of records that equal another record.
        rejects: Entries that are rejected: first those of each file, then those found across all files.
        findings: Findings about the files, the most severe first.
    """

    files: tuple[FileCount, ...]
    accepted: int
    duplicates: int
    rejects: Rejects
    findings: tuple[Finding, ...]


def examine(
    files: Iterable[Path],
    options: ReadOptions | None = None,
    *,
    there: str | Path | None = None,
    on_workload: Callable[[Validation], None] = lambda _: None,
    track: Track = show_nothing,
) -> Examination:
    """Check record stores, datasets and files of other programs for errors.

    Memory holds the records of two workloads at a time, and the rejects: while the first is checked, the
    second is sorted.

    Args:
        files: Files, or folders of datasets.
        options: Information that files of other programs do not contain.
        there: Dataset that the files are to be appended to. Its contents stay, and the files are checked
            against them.
        on_workload: Called with the validated records of each workload, in order of name.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If a file cannot be read.
    """
    paths = list(files)
    with ExitStack() as cleanup:
        sources = []
        for file in track(paths, "reading", len(paths)):
            sources.append(read_source(file, options))
            cleanup.callback(sources[-1].measurements.close)
        held = None
        if there is not None:
            named = {name for source in sources for name in source.measurements.workloads}
            held = FileContents.of(find_dataset(there), iter_records(there, workloads=named))
            cleanup.callback(held.measurements.close)
        judge = Judge(sources, held, () if there is None else devices_in(there))
        for workload in track(judge.workloads, "checking", len(judge.workloads)):
            on_workload(judge.judge(workload))
        return judge.examination()


class Judge:
    """Judges what was read, one workload after the other.

    Args:
        sources: What was read.
        there: What the dataset has of the same workloads that they are to enter.
        devices: The devices of this dataset.
    """

    def __init__(
        self,
        sources: Sequence[FileContents],
        there: FileContents | None = None,
        devices: Iterable[Device] = (),
    ) -> None:
        self._sources, self._there = sources, there
        self._sieve, self._findings, self._beside = Sieve(devices), FindingTallies(), SecondThread()
        self._accepted = self._duplicates = 0
        self._rejects = Rejects([(str(each.path), reject) for each in sources for reject in each.rejects])
        self._counts = [_Count() for _ in sources]

    @property
    def workloads(self) -> list[str]:
        """Names of the workloads."""
        return sorted({name for source in self._sources for name in source.measurements.workloads})

    def judge(self, workload: str) -> Validation:
        """Sort out the records of a workload."""
        files: dict[str, list[Records]] = {}
        if self._there:
            files[str(self._there.path)] = [self._there.measurements.of(workload)]
        there = sum(len(records) for held in files.values() for records in held)
        for source, count in zip(self._sources, self._counts, strict=True):
            records = source.measurements.of(workload)
            files.setdefault(str(source.path), []).append(records)
            count.add(records)
        held = WorkloadRecords.of(workload, files)
        validation = self._sieve.sift(held.records, there)
        self._beside.run(self._findings.add, held, validation)
        self._accepted += int(validation.new.sum())
        self._duplicates += validation.duplicates
        files_of = [held.files[at] for at in held.file[validation.rejected_at].tolist()]
        self._rejects.add(validation.rejected, validation.reasons, files_of)
        return validation

    def examination(self) -> Examination:
        """Return what all workloads together gave."""
        self._beside.wait()
        return Examination(
            files=tuple(map(_file_count, self._sources, self._counts)),
            accepted=self._accepted,
            duplicates=self._duplicates,
            rejects=self._rejects,
            findings=self._findings.all(self._sources, self._duplicates),
        )


@dataclass
class _Count:
    """Devices and working kernels of one file so far."""

    devices: set[str] = field(default_factory=set)
    ok: int = 0

    def add(self, records: Records) -> None:
        self.devices |= {records.platforms[at].device.name for at in np.unique(records.platform)}
        self.ok += int((lengths_of(records.rows["latencies_s"]) > 0).sum())


def _file_count(source: FileContents, count: _Count) -> FileCount:
    rejected = len(source.rejects)
    return FileCount(
        path=source.path,
        devices=tuple(sorted(count.devices)),
        records=len(source.measurements) + rejected,
        ok=count.ok,
        rejected=rejected,
    )


def check_not_empty(examination: Examination) -> None:
    """Check that something enters.

    Raises:
        CostModelError: Nothing does.
    """
    if not examination.accepted:
        rejects = examination.rejects
        best_only = [each for each in examination.findings if each.kind == "best only"]
        if best_only and not rejects:
            raise CostModelError(f"A dataset must have at least one measurement: {best_only[0].message}")
        if not examination.duplicates and not rejects:
            files = ", ".join(str(file.path) for file in examination.files)
            raise CostModelError(
                f"A dataset must have at least one measurement, but {files} has no complete record."
            )
        first = f", the first because {rejects[0].reason}" if rejects else ""
        raise CostModelError(
            f"A dataset must have at least one measurement, but {len(rejects)} of "
            f"{examination.duplicates + len(rejects)} records were rejected{first}."
        )


def write_rejects(rejects: Rejects, file: Path) -> None:
    """Write one ``{"reason": ..., "record": ...}`` per line; to a ``.parquet`` file, write ``Rejects.table``.

    Raises:
        CostModelError: If the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".parquet":
            pq.write_table(rejects.table(), file)
            return
        with file.open("wb") as lines:
            lines.writelines(msgspec.json.encode(reject) + b"\n" for reject in rejects)
    except OSError as error:
        raise CostModelError(f"Cannot write {file}: {error.strerror}.") from error
