"""What is wrong with measurements of many sources, found without being told what to look for."""

from collections.abc import Mapping, Sequence
from itertools import chain

import pandas as pd

from costmodel.dataset.checks._failures import failure_findings
from costmodel.dataset.checks._finding import Finding
from costmodel.dataset.checks._noise import NoiseTallies
from costmodel.dataset.checks._ranges import RangeTallies
from costmodel.dataset.checks._record_table import record_table
from costmodel.dataset.checks._rejects import duplicate_findings, reject_findings, repair_findings
from costmodel.dataset.checks._sieve import Validation
from costmodel.dataset.checks._spaces import space_findings
from costmodel.dataset.checks._suites import suite_findings
from costmodel.dataset.checks._twins import twin_findings
from costmodel.dataset.checks._units import (
    duration_findings,
    launch_findings,
    peak_findings,
    peak_shares,
    unit_findings,
)
from costmodel.dataset.importers import Reject, Source
from costmodel.dataset.splits import device_part, similarity_of, task_agreements
from costmodel.records import Measurement


class Findings:
    """Gathers findings, one workload after the other."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._ranges = RangeTallies()
        self._noise = NoiseTallies()
        self._shares: list[pd.DataFrame] = []
        self._agreements: list[pd.DataFrame] = []
        self._rejects: dict[str, list[Reject]] = {}

    def add(self, files: Mapping[str, Sequence[Measurement]], validation: Validation) -> None:
        """Judge a workload.

        Args:
            files: Its records in each file.
            validation: What became of all of them together, the very objects.
        """
        table = record_table(files)
        for find in (failure_findings, unit_findings, launch_findings, suite_findings):
            self._found += find(table)
        self._noise.add(table)
        self._shares.append(peak_shares(table))
        for file, records in files.items():
            self._ranges.add(file, records)
        if validation.accepted:
            accepted = record_table({"": validation.accepted})
            parts = [device_part(record.platform) for record in accepted["record"]]
            self._agreements.append(task_agreements(accepted.assign(part=parts)[accepted["alone"]]))
        # A record does not know its file.
        file_of = {id(record): file for file, records in files.items() for record in records}
        for reject in validation.rejects:
            self._rejects.setdefault(file_of[id(reject.record)], []).append(reject)

    def all(self, sources: Sequence[Source], duplicates: int) -> tuple[Finding, ...]:
        """All findings, the worst first.

        Args:
            sources: What was read from each file.
            duplicates: Records that are equal to others.
        """
        of_readers = ((str(source.path), source.rejects) for source in sources)
        rejects = (reject_findings(*of_file) for of_file in (*of_readers, *self._rejects.items()))
        findings = chain(
            self._found,
            self._ranges.findings(),
            self._noise.findings(),
            duration_findings(sources),
            peak_findings(pd.concat(self._shares)) if self._shares else (),
            twin_findings(similarity_of(self._agreements)) if self._agreements else (),
            chain.from_iterable(rejects),
            duplicate_findings(sources, duplicates),
            repair_findings(sources),
            space_findings(sources),
        )
        return tuple(sorted(findings, key=lambda finding: finding.rank))
