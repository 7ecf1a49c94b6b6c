"""Compare records: which have the same key, and in what they differ."""

import msgspec
import numpy as np
import pandas as pd

from costmodel.dataset.table._records import FACTS, Records
from costmodel.dataset.table._same import Codes, Mask, codes_of, number, same

# Software is the same in whatever order it is written.
_encode = msgspec.json.Encoder(order="deterministic").encode


def keys_of(records: Records) -> Codes:
    """``(n,)`` a number for each distinct candidate, platform, visit and company, as ``measurement_key``."""
    ids = codes_of(records.candidates["candidate_id"])[records.candidate]
    places = pd.factorize(np.array([each.platform_id for each in records.platforms], dtype=object))[0]
    visit = pd.factorize(records.rows["visit"].to_numpy())[0]
    return number([ids, places[records.platform], visit, records.alone.astype(np.int64)])


def differing(records: Records, some: Codes, others: Codes) -> dict[str, Mask]:
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
        "launches": ~same(launches.take(at[0]), launches.take(at[1])),
        "platform": contents[records.platform[some]] != contents[records.platform[others]],
    }
    for name in FACTS:
        column = records.rows[name].combine_chunks()
        found[name] = ~same(column.take(some), column.take(others))
    return {name: differs for name, differs in found.items() if differs.any()}


def equal(records: Records, some: Codes, others: Codes) -> Mask:
    """``(k,)`` whether records say the same as others of their keys; see ``differing``."""
    differs = differing(records, some, others).values()
    differ: Mask = np.logical_or.reduce([*differs, np.zeros(len(some), dtype=np.bool_)])
    return ~differ
