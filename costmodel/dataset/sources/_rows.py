"""Rows of CSV that a program printed, with what else it printed before, between and behind them."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from costmodel.dataset.sources._entry import EntryError
from costmodel.errors import CostModelError
from costmodel.reading import read_lines, refusing


class CsvRow(NamedTuple):
    """A row of cells.

    Attributes:
        number: Line of the file, from 1.
        cells: Its cells in order.
        header: Names of the columns, in the same order.
    """

    number: int
    cells: Sequence[str]
    header: Sequence[str]

    def by_name(self) -> Mapping[str, str]:
        """Return each cell by the name of its column; of columns of one name, the first.

        Raises:
            EntryError: There are more or fewer cells than columns.
        """
        if len(self.cells) != len(self.header):
            raise EntryError("a row must have as many cells as the header")
        pairs = zip(reversed(self.header), reversed(self.cells), strict=True)
        return {name: cell.strip() for name, cell in pairs}


def read_csv_rows(
    path: Path, what: str, is_header: Callable[[Sequence[str]], bool], *, chatter: str = "\0"
) -> Iterator[CsvRow]:
    """Read the rows behind each header; whatever precedes the first is passed over.

    Each line is read alone, so that a quote in what a program prints swallows no rows.

    Args:
        path: The file, which may be gzipped.
        what: What it must be, for messages.
        is_header: Whether cells are the names of columns.
        chatter: How lines begin that are no rows.

    Raises:
        CostModelError: The file cannot be read, or has no header.
    """
    header: Sequence[str] = ()
    for number, line in read_lines(path, what):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").replace("\0", "\ufffd")
        if text.startswith(chatter):
            continue
        with refusing(f"{path}, line {number}", what):
            cells = next(csv.reader([text]), [])
        if is_header(cells):
            header = [cell.strip() for cell in cells]
        elif header:
            yield CsvRow(number, cells, header)
    if not header:
        raise CostModelError(f"{path} must be {what}, but has no line with the names of its columns.")
