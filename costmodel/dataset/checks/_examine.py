"""Read files and report what is wrong with them; building a dataset starts with the same step."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from costmodel.arguments import check_paths
from costmodel.dataset.checks._check import Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.checks._ranges import NoiseTallies, RangeTallies
from costmodel.dataset.checks._sieve import (
    RejectCount,
    Rejects,
    Sieve,
    Validation,
    count_rejects,
    duplicate_findings,
    name_of_record,
    reject_findings,
    repair_findings,
)
from costmodel.dataset.checks._spaces import TaskTally, space_findings, suite_findings
from costmodel.dataset.checks._units import (
    duration_findings,
    failure_findings,
    launch_findings,
    peak_findings,
    peak_shares,
    unit_findings,
)
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._source import FileContents
from costmodel.dataset.splits._similarity import (
    DevicePair,
    DeviceSimilarity,
    describe_pairs,
    name_device_part,
    similarity_of,
    task_agreements,
    twin_groups,
)
from costmodel.dataset.table._columns import codes_of, lengths_of
from costmodel.dataset.table._dataset import make_categorical
from costmodel.dataset.table._files import find_dataset
from costmodel.dataset.table._read import Track, devices_in, iter_records, show_nothing
from costmodel.dataset.table._records import LATENCIES, Records
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
    paths = check_paths("files", files)
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
                "A dataset must have at least one measurement, but "
                + (f"{files} has no complete record." if files else "no file is given.")
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
            pq.write_table(rejects.table(), file.absolute())
            return
        with file.open("wb") as lines:
            lines.writelines(msgspec.json.encode(reject) + b"\n" for reject in rejects)
    except OSError as error:
        raise CostModelError(f"Cannot write {file}: {error.strerror}.") from error


def twin_findings(similarity: DeviceSimilarity) -> Iterator[Finding]:
    """Near-twins among the devices of what enters; see ``_similarity`` for the rule."""
    every = describe_pairs(similarity)
    for group in twin_groups(similarity):
        pairs = [pair for pair in every if pair.first in group and pair.second in group]
        yield Finding(
            kind="near-twins",
            severity=Severity.WARNING,
            concerns=", ".join(group),
            count=sum(pair.tasks for pair in pairs),
            message="Devices must differ if one is to be held out alone, but these measured nearly the same "
            "in the tasks that are counted: a split holds them out as one, unless told to keep them apart.",
            examples=pick_examples(list(map(_agreement, pairs))),
        )


def _agreement(pair: DevicePair) -> str:
    return (
        f"{pair.first} and {pair.second}: rank correlation {pair.rho:.3f}, latencies within "
        f"{pair.deviation:.1%} of a factor"
    )


class FindingTallies:
    """Gathers findings, one workload after the other."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._ranges = RangeTallies()
        self._noise = NoiseTallies()
        self._tasks = TaskTally()
        self._shares: list[pd.DataFrame] = []
        self._agreements: list[pd.DataFrame] = []
        self._rejects: dict[str, dict[str, RejectCount]] = {}

    def add(self, held: WorkloadRecords, validation: Validation) -> None:
        """Judge a workload.

        Args:
            held: Its records in each file.
            validation: What became of all of them together.
        """
        for find in (failure_findings, unit_findings, launch_findings, suite_findings):
            self._found += find(held)
        self._noise.add(held)
        self._ranges.add(held)
        self._shares.append(peak_shares(held))
        if len(validation.accepted_at):
            self._tasks.add(held.workload.name, validation.accepted)
            latencies = validation.records.only(LATENCIES).take(validation.accepted_at)
            self._agreements.append(_agreements(held.workload.name, latencies))
        for at, reason in zip(validation.rejected_at.tolist(), validation.reasons, strict=True):
            of_file = self._rejects.setdefault(held.files[held.file[at]], {})
            found = of_file.setdefault(reason, RejectCount())
            if found.add():
                found.examples.append(name_of_record(held.records, at))

    def all(self, sources: Sequence[FileContents], duplicates: int) -> tuple[Finding, ...]:
        """Return all findings, the worst first.

        Args:
            sources: What was read from each file.
            duplicates: Records that are equal to others.
        """
        of_readers = ((str(source.path), count_rejects(source.rejects)) for source in sources)
        rejects = (reject_findings(*of_file) for of_file in (*of_readers, *self._rejects.items()))
        findings = chain(
            self._found,
            self._ranges.findings(),
            self._noise.findings(),
            self._tasks.findings(),
            duration_findings(sources),
            peak_findings(pd.concat(self._shares)) if self._shares else (),
            twin_findings(similarity_of(self._agreements)) if self._agreements else (),
            chain.from_iterable(rejects),
            duplicate_findings(sources, duplicates),
            repair_findings(sources),
            space_findings(sources),
        )
        return tuple(sorted(findings, key=lambda finding: finding.rank))


def _agreements(workload: str, records: Records) -> pd.DataFrame:
    """Return how each two devices agree on what enters."""
    rows = pd.DataFrame(
        {
            "part": make_categorical(
                records.platform, [name_device_part(each) for each in records.platforms]
            ),
            "device": make_categorical(records.platform, [each.device.name for each in records.platforms]),
            "candidate": codes_of(records.candidates["candidate_id"])[records.candidate],
            "latency_s": records.latency_s,
        }
    )
    rows["workload"] = make_categorical(np.zeros(len(rows), np.int64), [workload])
    return task_agreements(rows[records.alone])
