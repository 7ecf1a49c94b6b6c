"""Find errors in measurements from many sources, without knowing what to look for."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pandas as pd

from costmodel.dataset.checks._check import Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.checks._noise import NoiseTallies
from costmodel.dataset.checks._ranges import RangeTallies
from costmodel.dataset.checks._rejects import (
    RejectCount,
    count_rejects,
    duplicate_findings,
    name_of_record,
    reject_findings,
    repair_findings,
)
from costmodel.dataset.checks._sieve import Validation
from costmodel.dataset.checks._spaces import TaskTally, space_findings, suite_findings
from costmodel.dataset.checks._units import (
    duration_findings,
    failure_findings,
    launch_findings,
    peak_findings,
    peak_shares,
    unit_findings,
)
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
from costmodel.dataset.table._columns import codes_of
from costmodel.dataset.table._dataset import make_categorical
from costmodel.dataset.table._records import LATENCIES, Records


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
