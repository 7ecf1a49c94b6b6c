"""Findings about entries that did not enter as written: rejected, duplicate or repaired."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, overload

import pyarrow as pa

from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity
from costmodel.dataset.checks._sieve import SAME_KEY
from costmodel.dataset.sources._source import FileContents, Reject
from costmodel.dataset.table._records import Records

_REJECTED, _CONFLICT, _DUPLICATE = "rejected", "conflict", "duplicate"
# Kinds that count what `Validation` and the rejects of sources count as well.
SORTED_OUT_KINDS = frozenset({_REJECTED, _CONFLICT, _DUPLICATE})


def repair_findings(sources: Sequence[FileContents]) -> Iterator[Finding]:
    """Yield what the readers of files set right, and took for given."""
    for source in sources:
        for repair, count in source.repairs.items():
            message = f"{repair} ({count:,} entries). You need not do anything."
            yield Finding("repair", Severity.NOTE, str(source.path), count, message)
        for text in source.assumptions:
            yield Finding("assumption", Severity.NOTE, str(source.path), len(source.measurements), text)


def duplicate_findings(sources: Sequence[FileContents], duplicates: int) -> Iterator[Finding]:
    """Yield records that are equal to others."""
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
    """Return what the reader of a file rejected, by reason."""
    found: dict[str, RejectCount] = {}
    for reject in rejects:
        counted = found.setdefault(reject.reason, RejectCount())
        if counted.add():
            counted.examples.append(_name(reject))
    return found


def reject_findings(file: str, rejects: Mapping[str, RejectCount]) -> Iterator[Finding]:
    """Yield what does not enter of a file, one finding a reason."""
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
    """Return what tells a record from others: its candidate and platform."""
    candidate = records.candidates.slice(int(records.candidate[at]), 1)
    workload, candidate_id = (candidate[name][0].as_py() for name in ("workload", "candidate_id"))
    return f"{workload} {candidate_id} on {records.platforms[records.platform[at]].name}"


def _name(reject: Reject) -> str:
    """Return the name of a record, or the start of an entry."""
    record = reject.record
    if isinstance(record, dict):
        return str(record.get("entry", ""))[:80]
    return f"{record.candidate.workload.name} {record.candidate.candidate_id} on {record.platform.name}"


_TABLE = pa.schema(
    [
        pa.field("reason", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("number", pa.int64()),
        pa.field("entry", pa.string()),
        pa.field("workload", pa.string()),
        pa.field("candidate_id", pa.string()),
        pa.field("platform", pa.string()),
    ]
)


class _Part(NamedTuple):
    """Records that do not enter, and the reason and the file of each."""

    records: Records
    reasons: list[str]
    files: list[str]


class Rejects(Sequence[Reject]):
    """What does not enter: of each file, then of all together.

    Args:
        of_files: What their readers rejected, each with its file.
    """

    def __init__(self, of_files: Sequence[tuple[str, Reject]] = ()) -> None:
        self._of_files = of_files
        self._parts: list[_Part] = []

    def add(self, records: Records, reasons: list[str], files: list[str]) -> None:
        """Add records, each with its reason and its file."""
        if reasons:
            self._parts.append(_Part(records, reasons, files))

    def table(self) -> Any:
        """One row each in a ``pyarrow.Table``, in the same order.

        Columns: ``reason`` and ``file``; of an entry of another program ``number`` (its row or line, where it
        has one) and ``entry`` (what stands there); of a measurement ``workload``, ``candidate_id`` and
        ``platform``. What the one has is null of the other.
        """
        of_files = pa.Table.from_pylist([_row(*each) for each in self._of_files], _TABLE)
        return pa.concat_tables([of_files, *map(_columns, self._parts)])

    def counts(self) -> Counter[str]:
        """Return how many there are of each reason."""
        counts = Counter(reject.reason for _, reject in self._of_files)
        for part in self._parts:
            counts.update(part.reasons)
        return counts

    @overload
    def __getitem__(self, position: int) -> Reject: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Reject, ...]: ...
    def __getitem__(self, position: int | slice) -> Reject | tuple[Reject, ...]:
        if isinstance(position, slice):
            return tuple(self)[position]
        return next(islice(self, range(len(self))[position], None))

    def __len__(self) -> int:
        return len(self._of_files) + sum(len(part.reasons) for part in self._parts)

    def __iter__(self) -> Iterator[Reject]:
        """Yield each of them, made one by one."""
        yield from (reject for _, reject in self._of_files)
        for part in self._parts:
            yield from map(Reject, part.reasons, part.records.measurements())


def _row(file: str, reject: Reject) -> dict[str, Any]:
    """Return the row of a reject of a reader: an entry, or a measurement."""
    record, said = reject.record, {"reason": reject.reason, "file": file}
    if isinstance(record, dict):
        return record | said
    candidate = record.candidate
    return said | {
        "workload": candidate.workload.name,
        "candidate_id": candidate.candidate_id,
        "platform": record.platform.name,
    }


def _columns(part: _Part) -> Any:
    """Return the rows of records."""
    records = part.records
    candidates = records.candidates.take(pa.array(records.candidate))
    platforms = pa.array([each.name for each in records.platforms], pa.string())
    unknown = {"number": pa.nulls(len(records), pa.int64()), "entry": pa.nulls(len(records), pa.string())}
    return pa.table(
        {
            "reason": part.reasons,
            "file": part.files,
            **unknown,
            "workload": candidates["workload"].cast(pa.string()),
            "candidate_id": candidates["candidate_id"].cast(pa.string()),
            "platform": platforms.take(pa.array(records.platform)),
        },
        _TABLE,
    )
