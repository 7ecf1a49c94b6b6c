"""Tables in CSV or Parquet as blocks of rows: as columns where they are plain, else row by row."""

import csv
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from costmodel.dataset.sources._entry import EntryError
from costmodel.opening import Stream, lines_of, open_unpacked
from costmodel.reading import refusing

MOST_LINE = 2**20
MOST_TOTAL = 4 * 2**30
_MOST_CELL = 2**17  # characters that Python's reader takes
_BLOCK = 2**25  # bytes; what repeats in a block is read once
_ROWS = 4096  # of a block that is read row by row
# A small Parquet file can say that it has any number of rows.
_MOST_ROWS = 20_000_000
_MOST_GROUP = 2**30
_PARQUET = b"PAR1"
_BATCH = 1024

Cells = dict[str, Any]


class RowError(EntryError):
    """A row that has no cells to speak of, and what stands there."""

    def __init__(self, reason: str, shown: str) -> None:
        super().__init__(reason)
        self.shown = shown


# Rows that stand together: an Arrow table of texts, or a list.
RowBlock = Any


def read_row_blocks(path: Path, names: Collection[str], delimiter: str) -> Iterator[RowBlock]:
    """Yield the rows of a table, some at a time.

    Args:
        path: A Parquet file, or a CSV file in UTF-8 with a header.
        names: Columns that it must have.
        delimiter: What stands between the cells of a CSV file.

    Raises:
        CostModelError: It cannot be read, or one of the columns is not there once.
    """
    with refusing(path, "a table in CSV or Parquet", form="csv"), open_unpacked(path) as (file, _):
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
        file.seek(0)
        yield from _parquet_blocks(file, names) if is_parquet else _csv_blocks(file, names, delimiter)


def _parquet_blocks(file: Stream, names: Collection[str]) -> Iterator[RowBlock]:
    table = pq.ParquetFile(file)
    _check_header(table.schema_arrow.names, names)
    metadata = table.metadata
    groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    if metadata.num_rows > _MOST_ROWS or max(groups, default=0) > _MOST_GROUP:
        raise ValueError(
            f"it must have at most {_MOST_ROWS:,} rows, in groups of at most {_MOST_GROUP:,} bytes unpacked"
        )
    for batch in table.iter_batches(_BATCH, columns=list(names)):
        yield batch.to_pylist()


def _check_header(header: Sequence[str], names: Collection[str]) -> None:
    wrong = [name for name in names if header.count(name) != 1]
    if wrong:
        counts = ", ".join(f"{name!r} is there {header.count(name)} times" for name in wrong[:3])
        raise ValueError(
            f"each column of the column map must occur once, but {counts}{_say_delimiter(header)}"
        )


def _say_delimiter(header: Sequence[str]) -> str:
    """What else may stand between the names of a header that was read as one."""
    (only,) = header if len(header) == 1 else ("",)
    found = next((each for each in ";\t|" if each in only), "")
    return found and f"; if {found!r} stands between them, write `delimiter = {json.dumps(found)}` in the map"


def _csv_blocks(file: Stream, names: Collection[str], delimiter: str) -> Iterator[RowBlock]:
    """Yield the blocks of a CSV file.

    Raises:
        ValueError: A line, or the file, is too long, or a column is not there once.
        csv.Error: The header is no CSV.
    """
    lines = lines_of(file, most_bytes=MOST_LINE, most_total=MOST_TOTAL)
    first = next(lines, b"")
    reader = _reader(chain([first], lines), delimiter, "utf-8-sig")
    header: list[str] = next(reader, [])
    _check_header(header, names)
    rows = partial(_row_blocks, header=header, delimiter=delimiter)
    before, total = reader.line_num, len(first)
    while text := _next_block(file):
        total += len(text)
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        longest = int(np.diff(ends, prepend=-1, append=len(text) - 1).max())
        if longest > MOST_LINE:
            raise ValueError(f"a line must have at most {MOST_LINE:,} bytes, but one has more")
        if total > MOST_TOTAL:
            raise ValueError(f"it must have at most {MOST_TOTAL:,} bytes unpacked, but has more")
        if b'"' in text:  # a cell may go on in the next block
            rest = lines_of(file, most_bytes=MOST_LINE, most_total=MOST_TOTAL - total)
            yield from rows(chain(BytesIO(text), rest), before=before)
            return
        table = _table(text, header, delimiter) if longest < _MOST_CELL and _is_plain(text) else None
        if table is not None:
            yield table
        else:
            yield from rows(BytesIO(text), before=before)
        before += len(ends)


def _next_block(file: Stream) -> bytes:
    """Some whole lines."""
    text = file.read(_BLOCK)
    return text if text.endswith(b"\n") else text + file.readline(MOST_LINE + 1)


def _is_plain(text: bytes) -> bool:
    """Tell whether each line is a row for any reader of CSV."""
    return b"\0" not in text and text.count(b"\r") == text.count(b"\r\n")


def _table(text: bytes, header: Sequence[str], delimiter: str) -> Any:
    """Return the cells of lines as texts; None where they have not as many as the header, or are no UTF-8."""
    names = list(map(str, range(len(header))))
    try:
        return pa_csv.read_csv(
            pa.BufferReader(text),
            pa_csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
            pa_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        ).rename_columns(list(header))
    except (pa.ArrowInvalid, UnicodeError):
        return None


def _reader(lines: Iterable[bytes], delimiter: str, encoding: str = "utf-8") -> Any:
    """Python's reader of CSV."""
    # Bytes that are no UTF-8 become halves of characters, which the cell that has them refuses.
    texts = (line.decode(encoding, "surrogateescape") for line in lines)
    return csv.reader(texts, delimiter=delimiter, strict=True)


def _row_blocks(
    lines: Iterable[bytes], *, header: Sequence[str], delimiter: str, before: int
) -> Iterator[list[Cells | RowError]]:
    """Yield the rows of lines, of which so many stand before."""
    reader = _reader(lines, delimiter)
    block: list[Cells | RowError] = []
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            reason = "a row must be CSV: quotes closed, and no cell beyond 131,072 characters"
            block.append(RowError(reason, f"it ends in line {before + reader.line_num} of the file"))
            continue
        if len(cells) == len(header):
            block.append(dict(zip(header, cells, strict=True)))
        elif cells:
            block.append(RowError("a row must have as many cells as the header", str(cells)))
        if len(block) == _ROWS:
            yield block
            block = []
    yield block
