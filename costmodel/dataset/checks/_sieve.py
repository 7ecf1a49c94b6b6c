"""Which records enter a dataset, and why the others do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from costmodel.dataset.table import ROWS, Records, codes_of, equal, keys_of, lengths_of, same
from costmodel.records import Device, Platform

SAME_KEY = "another measurement has the same candidate, platform and visit"
_LAUNCHES = "launches differ from those of another record of the same candidate"

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]
Reasons = NDArray[np.object_]  # why each row does not enter; empty where it does


@dataclass(frozen=True, eq=False)
class Validation:
    """Records, sorted out.

    Attributes:
        accepted: One measurement a key, by workload, candidate, platform, visit and company. Each carries the
            launches that any record of its candidate knows.
        rejected: The others, in the same order.
        reasons: Why each of these does not enter.
        rejected_at: Position of each of these among the records that were sorted out.
        duplicates: How many records were dropped because an equal one is there.
    """

    accepted: Records
    rejected: Records
    reasons: list[str]
    rejected_at: Codes
    duplicates: int


class Sieve:
    """Sorts out records, those of one workload after the other.

    The result does not depend on the order of the records, as long as workloads come in the order of their
    names: what devices are is remembered from one to the next.
    """

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}

    def sift(self, records: Records) -> Validation:
        """Sort out all records of some workloads.

        Of several different measurements of one key the earliest stays.
        """
        order = _order(records)
        records = records.take(order)
        reasons = _faults(records)
        self._check_devices(records, reasons)
        launched = _check_launches(records, reasons)
        duplicate = _check_keys(records, reasons)
        rejected = np.flatnonzero(reasons != "")
        accepted = launched.take(np.flatnonzero((reasons == "") & ~duplicate))
        return Validation(
            accepted,
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
    """What is wrong with each record in itself; empty if nothing is."""
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
    differs = known & ~same(launches, launches.take(holds))
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
    repeated = equal(records, fit[later], earlier[later])
    duplicate = np.zeros(len(records), dtype=np.bool_)
    duplicate[fit[later[repeated]]] = True
    reasons[fit[later[~repeated]]] = SAME_KEY
    return duplicate


def _order(records: Records) -> Codes:
    """By workload, candidate, platform and visit, then the earliest; the bytes decide the rest."""
    candidates = records.candidates
    candidate = _ranks(
        list(zip(candidates["workload"].to_pylist(), candidates["candidate_id"].to_pylist(), strict=True))
    )
    platform = _ranks([(p.device.name, p.isolation, p.sms_granted) for p in records.platforms])
    visit = np.unique(records.rows["visit"].to_numpy(), return_inverse=True)[1]
    times = np.asarray(pc.rank(records.rows["measured_at"].combine_chunks(), tiebreaker="dense")).astype(
        np.int64
    )
    # By value: lexsort of one joint number is faster than of several.
    joint = _joint([candidate[records.candidate], platform[records.platform], visit, ~records.alone, times])
    order = np.argsort(joint, kind="stable")
    tied = np.flatnonzero(np.diff(joint[order]) == 0)
    unequal = tied[~equal(records, order[tied], order[tied + 1])]
    for start, end in _runs(joint[order], unequal):
        run = order[start:end]
        contents = map(msgspec.json.encode, records.take(run).measurements())
        order[start:end] = [at for _, at in sorted(zip(contents, run.tolist(), strict=True))]
    return order


def _ranks(values: Sequence[Any]) -> Codes:
    """Place of each value among the distinct ones, in ascending order."""
    place = {value: i for i, value in enumerate(sorted(set(values)))}
    return np.array([place[value] for value in values], dtype=np.int64)


def _joint(codes: Sequence[Any]) -> Codes:
    """``(n,)`` one number that orders as the codes do, the first before the second and so on."""
    joint: Codes = codes[0].astype(np.int64)
    for more in codes[1:]:
        joint = joint * (int(more.max(initial=0)) + 1) + more
        # Kept small, so that the next does not overflow.
        joint = np.unique(joint, return_inverse=True)[1].astype(np.int64)
    return joint


def _runs(ordered: Codes, within: Codes) -> list[tuple[int, int]]:
    """First and last + 1 of each run of equal numbers that has one of these positions."""
    values = np.unique(ordered[within])
    starts = np.searchsorted(ordered, values, side="left")
    ends = np.searchsorted(ordered, values, side="right")
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
