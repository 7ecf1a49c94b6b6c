"""Whether the tables on the pages of experiments say what the result files beside them hold.

A row agrees if one part of a result file holds all of its numbers, each to the digits that are printed, as it
is, as a percentage or in another unit. A part is small, an entry of a list or the values of one name, so that
numbers are not found by chance. A comment above a table says what is otherwise:

    <!-- from all of the results -->            a row is gathered from many parts: any may hold a number
    <!-- computed from the results: HOW -->     as means are: nothing is compared
    <!-- not in the results: WHY -->            nothing is compared
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

EXPERIMENTS = Path(__file__).parents[1]
GATHERED = "<!-- from all of the results -->"
NOT_COMPARED = ("<!-- computed from the results: ", "<!-- not in the results: ")
# A number by itself, not one within a name, a range or a date.
_NUMBER = re.compile(r"(?<![\w.,-])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?![\w]*[A-Za-z_-]\w)")
_IN_TEXT = re.compile(r"-?(?:\d[\d,]*\.?\d*|\.\d+)")
# Seconds are printed as ms or us, shares in %, bytes in kB and MB.
_UNITS = (1.0, 100.0, 1e6, 1e3, 1e-3, 1e-6)
# Numbers that a small part has at most: so many, and so many more for each that a row prints.
_SMALL, _SMALL_EACH = 60, 6


class Row(msgspec.Struct, frozen=True):
    """A row of a table.

    Attributes:
        line: Where on the page.
        text: What it says.
        numbers: What it prints behind its first cell: each number, and half a unit of its last digit.
        note: The comment above its table; empty for none.
    """

    line: int
    text: str
    numbers: tuple[tuple[float, float], ...]
    note: str


class PageCheck(msgspec.Struct, frozen=True):
    """What became of the rows of a page.

    Attributes:
        page: Name of the experiment.
        agree: How many rows agree with a part of the results.
        gathered: How many agree with all of the results together.
        not_compared: How many are of tables that are computed, or not in the results.
        differ: The others.
    """

    page: str
    agree: int
    gathered: int
    not_compared: int
    differ: tuple[Row, ...]


def check_pages() -> list[PageCheck]:
    """Check every page that has results beside it."""
    folders = sorted(page.parent for page in EXPERIMENTS.glob("*/README.md"))
    return [check_page(folder) for folder in folders if any(folder.glob("*.json"))]


def check_page(folder: Path) -> PageCheck:
    """Check the page of an experiment."""
    results = [_read(file) for file in sorted([*folder.glob("*.json"), *folder.glob("*.csv")])]
    parts = [_Part(value) for document in results for value in _parts(document)]
    parts.sort(key=lambda part: part.size)
    whole = _Part(results)
    agree, gathered, not_compared, differ = 0, 0, 0, []
    for row in table_rows((folder / "README.md").read_text(encoding="utf-8")):
        small = _SMALL + _SMALL_EACH * len(row.numbers)
        if row.note.startswith(NOT_COMPARED):
            not_compared += 1
        elif any(part.holds(row) for part in parts if part.size <= small):
            agree += 1
        elif row.note == GATHERED and whole.holds(row):
            gathered += 1
        else:
            differ.append(row)
    return PageCheck(folder.name, agree, gathered, not_compared, tuple(differ))


def table_rows(page: str) -> Iterator[Row]:
    """Yield the rows of a page's tables that print numbers, without their heads."""
    note, before = "", ""
    lines = page.splitlines()
    for i, line in enumerate(map(str.strip, lines)):
        if not line.startswith("|"):
            note, before = (line if line.startswith("<!--") else note if not line else ""), ""
            continue
        is_head = not before
        before = line
        if is_head or set(line) <= set("|-: "):
            continue
        cells = line.strip("|").split("|")[1:]
        numbers = tuple(_printed(text) for cell in cells for text in _NUMBER.findall(cell))
        if numbers:
            yield Row(i + 1, line, numbers, note)


class _Part:
    """A part of the results: its numbers in every unit, sorted."""

    def __init__(self, value: Any) -> None:
        own = np.array(list(_numbers(value)), dtype=np.float64)
        ratios = [100.0 * (own - 1.0), 100.0 * (1.0 - own)]  # 1.25 times as long is 25 % longer
        self.values = np.unique(np.concatenate([*(own * unit for unit in _UNITS), *ratios]))
        self.size = own.size

    def holds(self, row: Row) -> bool:
        """Whether it has all numbers of a row."""
        numbers = np.array(row.numbers)
        first = np.searchsorted(self.values, numbers[:, 0] - numbers[:, 1])
        last = np.searchsorted(self.values, numbers[:, 0] + numbers[:, 1], side="right")
        return bool(self.size >= len(numbers) and (last > first).all())


def _printed(text: str) -> tuple[float, float]:
    plain = text.replace(",", "")
    return float(plain), 0.5005 * 10.0 ** -len(plain.partition(".")[2])


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value and all tables and lists within it."""
    yield value
    within: Sequence[Any] = ()
    if isinstance(value, dict):
        within = list(value.values())
    elif isinstance(value, list):
        within = value
    for item in within:
        if isinstance(item, dict | list):
            yield from _parts(item)


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers within a value, those in texts and names too."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if np.isfinite(value):
            yield float(value)
    elif isinstance(value, str):
        yield from (float(text.replace(",", "")) for text in _IN_TEXT.findall(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(name)
            yield from _numbers(item)
    else:
        for item in value:
            yield from _numbers(item)


def _read(file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if file.suffix == ".json" else list(csv.DictReader(text.splitlines()))
