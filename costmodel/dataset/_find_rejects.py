"""What did not enter as it is written: rejected and equal records, and entries that were read otherwise."""

from collections.abc import Iterable, Iterator, Sequence

from costmodel.dataset._finding import Finding, Severity, some
from costmodel.dataset._source import Source
from costmodel.dataset._validate import SAME_KEY, Reject, Validation

_REJECTED, _CONFLICT, _DUPLICATE = "rejected", "conflict", "duplicate"
# Kinds that count what `Validation` and the rejects of sources count as well.
SORTED_OUT_KINDS = frozenset({_REJECTED, _CONFLICT, _DUPLICATE})


def reject_findings(sources: Sequence[Source], validation: Validation) -> Iterator[Finding]:
    """Records that do not enter, by file and reason, and what the readers of files set right."""
    for source in sources:
        yield from _rejected(str(source.path), source.rejects)
        for repair, count in source.repairs.items():
            message = f"{repair} ({count:,} entries): nothing is to be done."
            yield Finding("repair", Severity.NOTE, str(source.path), count, message)
    # A record does not know its file. Those of `validation` are the objects that the sources hold.
    file_of = {id(record): str(source.path) for source in sources for record in source.measurements}
    of_files: dict[str, list[Reject]] = {}
    for reject in validation.rejects:
        of_files.setdefault(file_of.get(id(reject.record), ""), []).append(reject)
    for file, rejects in of_files.items():
        yield from _rejected(file, rejects)
    if validation.duplicates:
        message = (
            f"A record must be there once, but {validation.duplicates:,} are equal to another: each enters "
            "once, nothing is to be done."
        )
        files = ", ".join(str(source.path) for source in sources)
        yield Finding(_DUPLICATE, Severity.NOTE, files, validation.duplicates, message)


def _rejected(file: str, rejects: Iterable[Reject]) -> Iterator[Finding]:
    """One finding a reason."""
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
