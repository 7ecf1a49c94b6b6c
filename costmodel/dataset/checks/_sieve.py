"""Decide which records enter a dataset, and why the others do not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity
from costmodel.dataset.sources._source import FileContents, Reject
from costmodel.dataset.table._columns import Codes, Mask, codes_of, compare_columns, lengths_of
from costmodel.dataset.table._compare import compare_records, keys_of, order_records
from costmodel.dataset.table._records import ROWS, Records
from costmodel.records._platform import Device, Platform

SAME_KEY = "another measurement has the same candidate, platform and visit"
_LAUNCHES = "launches differ from those of another record of the same candidate"

Reasons = NDArray[np.object_]  # why each row does not enter; empty where it does


@dataclass(frozen=True, eq=False)
class Validation:
    """Records, sorted out.

    Attributes:
        records: All of them, by workload, candidate, platform, visit and company. Each carries the launches
            that any record of its candidate knows.
        accepted_at: Position of those among them that enter: one measurement a key.
        new: ``(len(accepted_at),)`` whether each of these was not in the dataset before.
        rejected: Those that do not enter, in the same order.
        reasons: Why each of these does not enter.
        rejected_at: Position of each of these among the records that were sorted out.
        duplicates: How many records were dropped because an equal one is there.
    """

    records: Records
    accepted_at: Codes
    new: Mask
    rejected: Records
    reasons: list[str]
    rejected_at: Codes
    duplicates: int

    @cached_property
    def accepted(self) -> Records:
        """The measurements that enter."""
        return self.records.take(self.accepted_at)


class Sieve:
    """Sorts out records, those of one workload after the other.

    The result does not depend on the order of the records, as long as workloads come in the order of their
    names: what devices are is remembered from one to the next.

    Args:
        devices: What is known of devices before.
    """

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        self._devices = {device.name: device for device in devices}

    def sift(self, records: Records, there: int = 0) -> Validation:
        """Sort out all records of some workloads.

        Of several different measurements of one key the earliest stays.

        Args:
            records: The records.
            there: How many of them, the first, are in the dataset already: these stay.
        """
        order = order_records(records)
        order = order[np.argsort(order >= there, kind="stable")]
        records = records.take(order)
        reasons = _faults(records)
        self._check_devices(records, reasons)
        launched = _check_launches(records, reasons)
        duplicate = _check_keys(records, reasons)
        rejected = np.flatnonzero(reasons != "")
        accepted = np.flatnonzero((reasons == "") & ~duplicate)
        return Validation(
            launched,
            accepted,
            order[accepted] >= there,
            records.take(rejected),
            reasons[rejected].tolist(),
            order[rejected],
            int(duplicate.sum()),
        )

    def _check_devices(self, records: Records, reasons: Reasons) -> None:
        """Give a reason to records whose device was described otherwise before."""
        fit = np.flatnonzero(reasons == "")
        places, first = np.unique(records.platform[fit], return_index=True)
        for place in places[np.argsort(first)]:
            device = records.platforms[place].device
            if self._devices.setdefault(device.name, device) != device:
                contradicts = fit[records.platform[fit] == place]
                reasons[contradicts] = f"device {device.name} is described in two ways"


def _faults(records: Records) -> Reasons:
    """Return what is wrong with each record in itself; empty if nothing is."""
    rows = records.rows
    reasons = np.full(len(records), "", dtype=object)
    # The first that is found stays: they are gone through backwards.
    at = codes_of(rows["measured_at"])
    times = rows["measured_at"].unique().to_pylist()
    wrong = "measured_at must be a UTC time in ISO 8601, but got {!r}"
    _say(
        reasons, at, [not _is_utc_or_unknown(time) for time in times], [wrong.format(time) for time in times]
    )
    visit = rows["visit"].to_numpy()
    _say_values(reasons, (visit != 0) & (visit != 1), "visit must be 0 or 1, but got {}", visit)
    runs = rows["runs_per_repeat"].to_numpy()
    none = (runs < 1) & (lengths_of(rows["latencies_s"]) > 0)
    _say_values(reasons, none, "runs_per_repeat must be at least 1 when ok, but got {}", runs)
    faults = list(map(_fault_of_sms, records.platforms))
    _say(reasons, records.platform, list(map(bool, faults)), faults)
    return reasons


def _say(reasons: Reasons, codes: Codes, wrong: Sequence[bool], texts: Sequence[str]) -> None:
    """Give the text of its code to each row whose code is wrong."""
    if any(wrong):
        rows = np.array(wrong)[codes]
        reasons[rows] = np.array(texts, dtype=object)[codes[rows]]


def _say_values(reasons: Reasons, rows: Mask, text: str, values: Codes) -> None:
    """Give the text with its value to each of these rows."""
    reasons[rows] = [text.format(value) for value in values[rows]]


def _fault_of_sms(platform: Platform) -> str:
    # A whole device whose SMs are unknown has 0 of 0.
    least = min(1, platform.device.sms)
    if least <= platform.sms_granted <= platform.device.sms:
        return ""
    return f"sms_granted must be in {least}..{platform.device.sms}, but got {platform.sms_granted}"


def _is_utc_or_unknown(text: str) -> bool:
    if not text:
        return True
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _check_launches(records: Records, reasons: Reasons) -> Records:
    """Give a reason to records whose candidate has other launches in one before.

    Returns:
        The records, with the launches of their candidates where any of those that fit knows them.
    """
    launches = records.candidates["launches"].combine_chunks()
    known = lengths_of(launches) > 0
    ids = codes_of(records.candidates["candidate_id"])
    fit = np.flatnonzero((reasons == "") & known[records.candidate])
    first_ids, first = np.unique(ids[records.candidate[fit]], return_index=True)
    # Position of the candidate whose launches hold for all of its id; its own where none is known.
    of_id = np.full(ids.max(initial=-1) + 1, -1)
    of_id[first_ids] = records.candidate[fit[first]]
    holds = np.where(of_id[ids] >= 0, of_id[ids], np.arange(len(ids)))
    differs = known & ~compare_columns(launches, launches.take(holds))
    reasons[fit[differs[records.candidate[fit]]]] = _LAUNCHES
    candidate = np.where(known, np.arange(len(ids)), holds)[records.candidate]
    rows = records.rows.set_column(0, ROWS.field(0), [candidate])
    return Records(records.candidates, records.platforms, rows)


def _check_keys(records: Records, reasons: Reasons) -> Mask:
    """Give a reason to records whose key an earlier one has; ``(n,)`` which are equal to that one."""
    fit = np.flatnonzero(reasons == "")
    keys = keys_of(records)[fit]
    _, first, key_of = np.unique(keys, return_index=True, return_inverse=True)
    earlier = fit[first[key_of]]
    later = np.flatnonzero(earlier != fit)
    repeated = compare_records(records, fit[later], earlier[later])
    duplicate = np.zeros(len(records), dtype=np.bool_)
    duplicate[fit[later[repeated]]] = True
    reasons[fit[later[~repeated]]] = SAME_KEY
    return duplicate


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
