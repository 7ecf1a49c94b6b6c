"""Findings about entries that did not enter as written: rejected, duplicate or repaired."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from costmodel.dataset.checks._finding import MOST_EXAMPLES, Finding, Severity
from costmodel.dataset.checks._sieve import SAME_KEY
from costmodel.dataset.importers._source import Reject, Source
from costmodel.dataset.table._records import Records

_REJECTED, _CONFLICT, _DUPLICATE = "rejected", "conflict", "duplicate"
# Kinds that count what `Validation` and the rejects of sources count as well.
SORTED_OUT_KINDS = frozenset({_REJECTED, _CONFLICT, _DUPLICATE})


def repair_findings(sources: Sequence[Source]) -> Iterator[Finding]:
    """What the readers of files set right."""
    for source in sources:
        for repair, count in source.repairs.items():
            message = f"{repair} ({count:,} entries). You need not do anything."
            yield Finding("repair", Severity.NOTE, str(source.path), count, message)


def duplicate_findings(sources: Sequence[Source], duplicates: int) -> Iterator[Finding]:
    """Records that are equal to others."""
    if duplicates:
        message = (
            f"Each record must be there once, but {duplicates:,} equal another record. Each is kept once; "
            "you need not do anything."
        )
        files = ", ".join(str(source.path) for source in sources)
        yield Finding(_DUPLICATE, Severity.NOTE, files, duplicates, message)


@dataclass
class RejectCount:
    """How many records have one reason, and names of the first."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self) -> bool:
        """Count one more; whether it is among those to be named."""
        self.count += 1
        return self.count <= MOST_EXAMPLES


def count_rejects(rejects: Iterable[Reject]) -> dict[str, RejectCount]:
    """What the reader of a file rejected, by reason."""
    found: dict[str, RejectCount] = {}
    for reject in rejects:
        counted = found.setdefault(reject.reason, RejectCount())
        if counted.add():
            counted.examples.append(_name(reject))
    return found


def reject_findings(file: str, rejects: Mapping[str, RejectCount]) -> Iterator[Finding]:
    """What does not enter of a file, one finding a reason."""
    for reason, found in rejects.items():
        yield Finding(
            kind=_CONFLICT if reason == SAME_KEY else _REJECTED,
            severity=Severity.WARNING,
            concerns=file,
            count=found.count,
            message=f"{reason}: {found.count:,} records do not enter. Correct them "
            "where they come from, or go without them.",
            examples=tuple(found.examples),
        )


def name_of_record(records: Records, at: int) -> str:
    """What tells a record from others: its candidate and platform."""
    candidate = records.candidates.slice(int(records.candidate[at]), 1)
    workload, candidate_id = (candidate[name][0].as_py() for name in ("workload", "candidate_id"))
    return f"{workload} {candidate_id} on {records.platforms[records.platform[at]].name}"


def _name(reject: Reject) -> str:
    """The name of a record, or the start of an entry."""
    record = reject.record
    if isinstance(record, dict):
        return str(record.get("entry", ""))[:80]
    return f"{record.candidate.workload.name} {record.candidate.candidate_id} on {record.platform.name}"
