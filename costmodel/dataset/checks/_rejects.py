"""What did not enter as it is written: rejected and equal records, and entries that were read otherwise."""

from collections.abc import Iterable, Iterator, Sequence

from costmodel.dataset.checks._finding import Finding, Severity, some
from costmodel.dataset.checks._sieve import SAME_KEY
from costmodel.dataset.importers import Reject, Source

_REJECTED, _CONFLICT, _DUPLICATE = "rejected", "conflict", "duplicate"
# Kinds that count what `Validation` and the rejects of sources count as well.
SORTED_OUT_KINDS = frozenset({_REJECTED, _CONFLICT, _DUPLICATE})


def repair_findings(sources: Sequence[Source]) -> Iterator[Finding]:
    """What the readers of files set right."""
    for source in sources:
        for repair, count in source.repairs.items():
            message = f"{repair} ({count:,} entries): nothing is to be done."
            yield Finding("repair", Severity.NOTE, str(source.path), count, message)


def duplicate_findings(sources: Sequence[Source], duplicates: int) -> Iterator[Finding]:
    """Records that are equal to others."""
    if duplicates:
        message = (
            f"A record must be there once, but {duplicates:,} are equal to another: each enters once, "
            "nothing is to be done."
        )
        files = ", ".join(str(source.path) for source in sources)
        yield Finding(_DUPLICATE, Severity.NOTE, files, duplicates, message)


def reject_findings(file: str, rejects: Iterable[Reject]) -> Iterator[Finding]:
    """What does not enter of a file, one finding a reason."""
    of_reason: dict[str, list[Reject]] = {}
    for reject in rejects:
        of_reason.setdefault(reject.reason, []).append(reject)
    for reason, group in of_reason.items():
        yield Finding(
            kind=_CONFLICT if reason == SAME_KEY else _REJECTED,
            severity=Severity.WARNING,
            concerns=file,
            count=len(group),
            message=f"{reason}: {len(group):,} records do not enter. Correct them "
            "where they come from, or go without them.",
            examples=some([_name(reject) for reject in group]),
        )


def _name(reject: Reject) -> str:
    """What tells a rejected record from others: its candidate and platform, or the start of its entry."""
    record = reject.record
    if isinstance(record, dict):
        return str(record.get("entry", ""))[:80]
    return f"{record.candidate.workload.name} {record.candidate.candidate_id} on {record.platform.name}"
