"""The order of the rows in a dataset's file, which does not depend on how they came."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow.compute as pc

from costmodel.dataset.table._compare import equal
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._same import Codes


def in_order(records: Records) -> Codes:
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
    unequal = tied[~equal(records, order[tied], order[tied + 1])]
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
    """``(n,)`` one number that orders as the codes do, the first before the second and so on.

    There must be fewer than 2^63 combinations of codes: a hundred million rows of a hundred platforms have.
    """
    joint: Codes = codes[0].astype(np.int64)
    for more in codes[1:]:
        joint = joint * (int(more.max(initial=0)) + 1) + more
    return joint
