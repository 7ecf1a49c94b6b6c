"""Entries of foreign files: checks of what stands there, and the records that our exports attach.

An entry that we export has one more field, ``costmodel``: the list of the records that it stands for. Other
programs ignore it. A reader believes it only if the rest of the entry is what those records show, so that a
file that was changed by hand is noticed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from costmodel.decoding import UNDECODABLE
from costmodel.records._candidate import Decision
from costmodel.records._measurement import Measurement

# How many of each unit make a second.
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
LEAST_S = 1e-9
# Eleven days for one kernel: numbers beyond, such as 1e10 and 1e20, were written in place of a failure.
MOST_S = 1e6
_LARGEST_INTEGER = 2**53  # beyond, JSON readers disagree
_MOST_DIGITS = 400  # which Python reads at once
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII | re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)


class EntryError(Exception):
    """An entry cannot be accepted.

    The message says what must hold and contains no values, because rejected entries are counted by message.
    """


def to_seconds(value: float, per_second: float, what: str) -> float:
    """Return a latency in seconds.

    Args:
        value: The number in the file.
        per_second: How many of its units make a second.
        what: What the numbers are called in the file.

    Raises:
        EntryError: It is no latency of a kernel.
    """
    if not LEAST_S * per_second <= value < math.inf:
        raise EntryError(f"{what} must be finite and at least one nanosecond")
    if value >= MOST_S * per_second:
        raise EntryError(f"{what} must be below {MOST_S:g} s, as larger values stand for a failure")
    return float(value) / per_second


def to_decision(value: Any) -> Decision:
    """Return a parameter's value; true is 1 and 2.0 is 2, so that one config has one identity in all files.

    Raises:
        EntryError: It is neither a text nor a number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and abs(value) < _LARGEST_INTEGER:
        return int(value) if value == int(value) else value
    raise EntryError("a parameter's value must be text or a finite number")


def read_number(text: str, what: str) -> int | float:
    """Read a number that a program printed, maybe with commas between thousands.

    Args:
        text: The text.
        what: What it is called in messages.

    Raises:
        EntryError: It is no number.
    """
    plain = text.strip()
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    if len(plain) > _MOST_DIGITS or not _NUMBER.fullmatch(plain):
        raise EntryError(f"{what} must be numbers")
    return int(plain) if plain.lstrip("+-").isdecimal() else float(plain)


def read_decision(text: str) -> Decision:
    """Read a parameter's value that a program printed: a number where it looks like one, else a text.

    Raises:
        EntryError: It is a number beyond 2**53.
    """
    return to_decision(read_number(text, "values") if _NUMBER.fullmatch(text) else text)


def to_factors(values: Any) -> tuple[int, ...]:
    """Return the factors of a tiled loop.

    Raises:
        EntryError: They are not a list of positive integers.
    """
    whole = isinstance(values, list) and all(type(value) is int for value in values)
    if not whole or not values or not all(1 <= value < _LARGEST_INTEGER for value in values):
        raise EntryError("the factors of a tile must be a list of positive integers")
    return tuple(values)


def to_utc(timestamp: Any) -> str:
    """Return the time in UTC; empty if it is not given or does not say its zone.

    Raises:
        EntryError: It is no time.
    """
    try:
        time = datetime.fromisoformat(timestamp) if timestamp else None
        return time.astimezone(UTC).isoformat() if time and time.tzinfo else ""
    except (TypeError, ValueError, OverflowError):
        raise EntryError("timestamp must be ISO 8601") from None


KEY = "costmodel"
# Beyond, a format's milliseconds would overflow; the records keep the number.
_MOST_MS = 1e300

Show = Callable[[Sequence[Measurement]], Mapping[str, Any]]


def attach_records(records: Sequence[Measurement], show: Show) -> dict[str, Any]:
    """Return the entry of a foreign format that stands for these records."""
    return {**show(records), KEY: msgspec.to_builtins(list(records))}


def read_attached_records(entry: Any, show: Show) -> list[Measurement]:
    """Return the records behind an entry, the inverse of ``attach_records``.

    Raises:
        EntryError: It has none, or shows something else than they do.
    """
    if not isinstance(entry, dict) or not entry.get(KEY):
        raise EntryError(f"an entry of a file written by costmodel must have its records in {KEY}")
    try:
        records = msgspec.json.decode(msgspec.json.encode(entry[KEY]), type=list[Measurement])
        shown = {**show(records), KEY: entry[KEY]}
    except UNDECODABLE:
        raise EntryError("the records of an entry must follow the schema of this version") from None
    if any(name not in entry or entry[name] != value for name, value in shown.items()):
        raise EntryError("an entry must agree with its records, but it was changed")
    return records


def to_milliseconds(latencies_s: Sequence[float]) -> list[float]:
    """Repeats in the unit of Kernel Tuner and T4."""
    return [min(latency * 1e3, _MOST_MS) for latency in latencies_s]
