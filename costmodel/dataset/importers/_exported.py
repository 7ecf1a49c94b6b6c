"""Records that costmodel's exporters attach to each entry of a foreign format, so that nothing is lost.

An entry that we export has one more field, ``costmodel``: the list of the records that it stands for. Other
programs ignore it. A reader believes it only if the rest of the entry is what those records show, so that a
file that was changed by hand is noticed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from costmodel.dataset.importers._entry import EntryError
from costmodel.records._measurement import Measurement

KEY = "costmodel"
# Beyond, a format's milliseconds would overflow; the records keep the number.
_MOST_MS = 1e300

Show = Callable[[Sequence[Measurement]], Mapping[str, Any]]


def with_records(records: Sequence[Measurement], show: Show) -> dict[str, Any]:
    """The entry of a foreign format that stands for these records."""
    return {**show(records), KEY: msgspec.to_builtins(list(records))}


def records_behind(entry: Any, show: Show) -> list[Measurement]:
    """The records behind an entry, the inverse of ``with_records``.

    Raises:
        EntryError: It has none, or shows something else than they do.
    """
    if not isinstance(entry, dict) or not entry.get(KEY):
        raise EntryError(f"an entry of a file written by costmodel must have its records in {KEY}")
    try:
        records = msgspec.json.decode(msgspec.json.encode(entry[KEY]), type=list[Measurement])
        shown = {**show(records), KEY: entry[KEY]}
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        raise EntryError("the records of an entry must follow the schema of this version") from None
    if any(name not in entry or entry[name] != value for name, value in shown.items()):
        raise EntryError("an entry must agree with its records, but it was changed")
    return records


def milliseconds(latencies_s: Sequence[float]) -> list[float]:
    """Repeats in the unit of Kernel Tuner and T4."""
    return [min(latency * 1e3, _MOST_MS) for latency in latencies_s]
