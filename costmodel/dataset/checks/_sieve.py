"""Decide which records enter a dataset, and why the others do not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
