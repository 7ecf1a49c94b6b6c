"""Rejected rows with reasons; they become objects only when accessed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, overload

import pyarrow as pa

from costmodel.dataset.importers._source import Reject
from costmodel.dataset.table._records import Records

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
        """How many there are of each reason."""
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
        """Each of them, made one by one."""
        yield from (reject for _, reject in self._of_files)
        for part in self._parts:
            yield from map(Reject, part.reasons, part.records.measurements())


def _row(file: str, reject: Reject) -> dict[str, Any]:
    """The row of a reject of a reader: an entry, or a measurement."""
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
    """The rows of records."""
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
