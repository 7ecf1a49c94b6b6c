"""Each row of the README's table of results is told on docs/figures.md, in the table that is named there."""

import re

import pytest
from code_blocks import ROOT

# Each table of the page, from its title in bold to the next, in one line.
TABLES = [
    " ".join(part.split())
    for part in re.split(r"^(?=\*\*|## )", (ROOT / "docs/figures.md").read_text(), flags=re.MULTILINE)
]


def rows(page: str, head: str) -> list[list[str]]:
    """Cells of the rows of a table that begins with ``head``, without rows that only part it."""
    _, _, after = (ROOT / page).read_text().partition(head)
    lines = after.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if any(cell.strip("| ") for cell in row[1:])]


SHOWN = rows("README.md", "| what | costmodel |")
TOLD = rows("docs/figures.md", "| row of the README |")


def test_each_row_of_the_readme_is_told_in_its_order() -> None:
    assert [row[0] for row in TOLD] == [row[0] for row in SHOWN], "add the row to docs/figures.md too"


@pytest.mark.parametrize(("shown", "told"), [*zip(SHOWN, TOLD, strict=False)], ids=[row[0] for row in TOLD])
def test_a_figure_stands_in_the_table_that_is_named(shown: list[str], told: list[str]) -> None:
    _, there, title, _ = told
    (table,) = (each for each in TABLES if each.startswith(f"**{title}"))
    assert there.rpartition("/ ")[2] in table
    printed = re.findall(r"\d[\d.]*", shown[1].partition("(")[0])
    assert [_read(part) for part in there.split(" to ")] == [
        pytest.approx(float(number), abs=0.5 * 10.0 ** -len(number.partition(".")[2])) for number in printed
    ]


def _read(text: str) -> float:
    """A number, one over another, or how many of how many."""
    number, *other = (float(part) for part in re.split(r" (?:/|of) ", text.replace("%", "")))
    return number / other[0] if other else number
