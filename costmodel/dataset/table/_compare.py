"""Compare records: which have the same key, and in what they differ."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow.compute as pc

from costmodel.dataset.table._columns import Codes, Mask, codes_of, compare_columns, number_combinations
from costmodel.dataset.table._records import FACTS, Records

# Software is the same in whatever order it is written.
_encode = msgspec.json.Encoder(order="deterministic").encode


def keys_of(records: Records) -> Codes:
    """``(n,)`` a number for each distinct candidate, platform, visit and company, as ``measurement_key``."""
    ids = codes_of(records.candidates["candidate_id"])[records.candidate]
    places = pd.factorize(np.array([each.platform_id for each in records.platforms], dtype=object))[0]
    visit = pd.factorize(records.rows["visit"].to_numpy())[0]
    return number_combinations([ids, places[records.platform], visit, records.alone.astype(np.int64)])


def find_differences(records: Records, some: Codes, others: Codes) -> dict[str, Mask]:
    """In what records differ from others of their keys.

    Args:
        records: What holds all of them.
        some: ``(k,)`` positions.
        others: ``(k,)`` positions of those that each is compared with.

    Returns:
        For each field that differs anywhere, ``(k,)`` where it does. ``platform`` is software or a device's
        figures; of a candidate only the ``launches`` can differ.
    """
    contents = pd.factorize(np.array([_encode(each) for each in records.platforms], dtype=object))[0]
    launches = records.candidates["launches"].combine_chunks()
    at = records.candidate[some], records.candidate[others]
    found = {
        "launches": ~compare_columns(launches.take(at[0]), launches.take(at[1])),
        "platform": contents[records.platform[some]] != contents[records.platform[others]],
    }
    for name in FACTS:
        column = records.rows[name].combine_chunks()
        found[name] = ~compare_columns(column.take(some), column.take(others))
    return {name: differs for name, differs in found.items() if differs.any()}


def compare_records(records: Records, some: Codes, others: Codes) -> Mask:
    """Return ``(k,)`` whether records say the same as others of their keys; see ``find_differences``."""
    differs = find_differences(records, some, others).values()
    differ: Mask = np.logical_or.reduce([*differs, np.zeros(len(some), dtype=np.bool_)])
    return ~differ


def order_records(records: Records) -> Codes:
    """Positions by workload, candidate, platform and visit, then the earliest; the bytes decide the rest."""
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
    unequal = tied[~compare_records(records, order[tied], order[tied + 1])]
    # All at once: to take a few rows takes about as long as to take many.
    undecided = np.flatnonzero(np.isin(joint[order], joint[order[unequal]]))
    rows = order[undecided]
    contents = map(msgspec.json.encode, records.take(rows).measurements())
    ordered = sorted(zip(joint[rows].tolist(), contents, rows.tolist(), strict=True))
    order[undecided] = [row for _, _, row in ordered]
    return order


def _ranks(values: Sequence[Any]) -> Codes:
    """Place of each value among the distinct ones, in ascending order."""
    place = {value: i for i, value in enumerate(sorted(set(values)))}
    return np.array([place[value] for value in values], dtype=np.int64)


def _joint(codes: Sequence[Any]) -> Codes:
    """Return ``(n,)`` one number that orders as the codes do, the first before the second and so on.

    There must be fewer than 2^63 combinations of codes: a hundred million rows of a hundred platforms have.
    """
    joint: Codes = codes[0].astype(np.int64)
    for more in codes[1:]:
        joint = joint * (int(more.max(initial=0)) + 1) + more
    return joint
