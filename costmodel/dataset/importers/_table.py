"""Tables of other programs in CSV or Parquet: a file that someone writes says which column is what.

Blocks of lines are read as columns where they are plain, and row by row where they are not.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from costmodel.arrays import FloatArray
from costmodel.dataset.importers._table_rows import ColumnMap, Row, RowReader, TableColumn, read_column_map
from costmodel.dataset.sources._base import (
    InputFile,
    PlatformFile,
    ReadOptions,
    find_platform_file,
    require_platform,
)
from costmodel.dataset.sources._entry import LEAST_S, MOST_S, PER_SECOND, EntryError
from costmodel.dataset.sources._source import Entry, FileContents, Origin
from costmodel.dataset.table._columns import Codes, Mask, codes_of, number_combinations
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.opening import Stream, lines_of, open_unpacked
from costmodel.reading import refusing
from costmodel.records._measurement import Measurement, Outcome
from costmodel.threads import make_ahead

MOST_LINE = 2**20
MOST_TOTAL = 4 * 2**30
_MOST_CELL = 2**17  # characters that Python's reader takes
_BLOCK = 2**25  # bytes; what repeats in a block is read once
_ROWS = 4096  # of a block that is read row by row

Cells = dict[str, Any]


class RowError(EntryError):
    """A row that has no cells to speak of, and what stands there."""

    def __init__(self, reason: str, shown: str) -> None:
        super().__init__(reason)
        self.shown = shown


# Rows that stand together: an Arrow table of texts, or a list.
RowBlock = Any


T = TypeVar("T")


# A small Parquet file can say that it has any number of rows.
_MOST_ROWS = 20_000_000
_MOST_GROUP = 2**30
_PARQUET = b"PAR1"
_BATCH = 1024


def read_table(file: InputFile, options: ReadOptions) -> FileContents:
    if options.columns is None:
        raise CostModelError(
            f"{file.path} must be a file of measurements, but it looks like a table of another program. Give "
            "`--columns map.toml`, which maps its columns; `costmodel dataset build --help` shows an example."
        )
    platform = find_platform_file(file.path, options.platform)
    return FileContents.of(file.path, _entries(file.path, options.columns, platform))


def _entries(path: Path, column_map: Path, platform: PlatformFile | None) -> Iterator[Entry]:
    """Read a table, a block of rows at a time; a row that cannot be believed is rejected with its number.

    Rows are numbered from 1, behind the header of a CSV file.

    Args:
        path: A Parquet file, or a CSV file in UTF-8 with a header.
        column_map: TOML file that says which column is what.
        platform: Where the rows were measured, if the columns do not say the device.

    Raises:
        CostModelError: A file cannot be read, a column is missing, or nothing says the platform.
    """
    columns = read_column_map(column_map)
    where = None if columns.device is not None else require_platform(platform, path).platform
    origin = Origin.of(path)
    reader = ColumnReader(RowReader(columns, where, origin.text))

    def read() -> Iterator[Sequence[Entry]]:
        number = 1
        for block in make_ahead(_blocks(path, columns)):
            yield list(reader.read(block, origin, number))
            number += len(block)

    yield from chain.from_iterable(make_ahead(read()))


def _blocks(path: Path, columns: ColumnMap) -> Iterator[RowBlock]:
    with refusing(path, "a table in CSV or Parquet"), open_unpacked(path) as (file, _):
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
        file.seek(0)
        yield from _parquet_blocks(file, columns) if is_parquet else _csv_blocks(file, columns)


def _csv_blocks(file: Stream, columns: ColumnMap) -> Iterator[RowBlock]:
    for header, block in csv_blocks(file, columns.delimiter):
        _check_header(header, columns)
        yield block


def _parquet_blocks(file: Stream, columns: ColumnMap) -> Iterator[RowBlock]:
    table = pq.ParquetFile(file)
    _check_header(table.schema_arrow.names, columns)
    metadata = table.metadata
    groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    if metadata.num_rows > _MOST_ROWS or max(groups, default=0) > _MOST_GROUP:
        raise ValueError(
            f"it must have at most {_MOST_ROWS:,} rows, in groups of at most {_MOST_GROUP:,} bytes unpacked"
        )
    for batch in table.iter_batches(_BATCH, columns=list(columns.names)):
        yield batch.to_pylist()


def _check_header(header: Sequence[str], columns: ColumnMap) -> None:
    wrong = [name for name in columns.names if header.count(name) != 1]
    if wrong:
        counts = ", ".join(f"{name!r} is there {header.count(name)} times" for name in wrong[:3])
        raise ValueError(f"each column of the column map must occur once, but {counts}")


def csv_blocks(file: Stream, delimiter: str) -> Iterator[tuple[list[str], RowBlock]]:
    """Yield the header with each block of rows, one after the other; the first block has none.

    Raises:
        ValueError: A line, or the file, is too long.
        csv.Error: The header is no CSV.
    """
    lines = lines_of(file, most_bytes=MOST_LINE, most_total=MOST_TOTAL)
    first = next(lines, b"")
    reader = _reader(chain([first], lines), delimiter, "utf-8-sig")
    header: list[str] = next(reader, [])
    yield header, []
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
            yield from ((header, each) for each in rows(chain(BytesIO(text), rest), before=before))
            return
        table = _table(text, header, delimiter) if longest < _MOST_CELL and _is_plain(text) else None
        if table is not None:
            yield header, table
        else:
            yield from ((header, each) for each in rows(BytesIO(text), before=before))
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


class ColumnReader:
    """Reads the blocks of one table.

    Cells of which all rows make the same are read once for each distinct combination. Rows of which anything
    is unusual are left to the reader of rows, which knows what to say of them.

    Args:
        rows: The reader of its rows.
    """

    def __init__(self, rows: RowReader) -> None:
        self._rows = rows
        columns = rows.columns
        self._latency = columns.latency
        sizes = map(TableColumn, columns.dims.values())
        self._of_candidate = _names(columns.workload, *sizes, *rows.parameters.values())
        self._of_platform = _names(columns.device, columns.sms, columns.isolation)
        self._of_outcome = _names(columns.outcome, columns.error)

    def read(self, block: RowBlock, origin: Origin, first: int) -> Iterator[Entry]:
        """Yield the measurements and rejects of a block.

        Args:
            block: Its rows.
            origin: The file.
            first: Number of the first row.
        """
        if isinstance(block, list):
            yield from (self._entry(row, origin, first + i) for i, row in enumerate(block))
            return
        records, plain = self._records(block)
        others = np.flatnonzero(~plain)
        if not others.size:
            yield records
            return
        rows = block.take(pa.array(others)).to_pylist()
        entries = [self._entry(row, origin, first + i) for i, row in zip(others.tolist(), rows, strict=True)]
        read = np.array([isinstance(entry, Measurement) for entry in entries], dtype=np.bool_)
        order = np.argsort(np.concatenate([np.flatnonzero(plain), others[read]]), kind="stable")
        believed = Records.of(entry for entry in entries if isinstance(entry, Measurement))
        yield Records.concat([records, believed]).take(order)
        yield from (entry for entry in entries if not isinstance(entry, Measurement))

    def _entry(self, row: Row | RowError, origin: Origin, number: int) -> Entry:
        if isinstance(row, RowError):
            return origin.reject(str(row), row.shown, number)
        try:
            return self._rows.measurement(row)
        except EntryError as error:
            return origin.reject(str(error), row, number)

    def _records(self, table: Any) -> tuple[Records, Mask]:
        """Return the measurements of rows of which nothing is unusual, and ``(n,)`` which these are."""
        rows = self._rows
        candidate, candidates = _distinct(table, self._of_candidate, rows.candidate)
        platform, platforms = _distinct(table, self._of_platform, rows.platform)
        outcome, outcomes = _distinct(table, self._of_outcome, rows.ending)
        visit, visits = _distinct(table, _names(rows.columns.visit), rows.visit)
        time, times = _distinct(table, _names(rows.columns.measured_at), rows.measured_at)
        ok = np.array([each is not None and each[0] is Outcome.OK for each in outcomes], np.bool_)[outcome]
        latencies_s, given, possible = self._latencies(table)
        plain = possible | ~ok
        for codes, found in (
            (candidate, candidates),
            (platform, platforms),
            (outcome, outcomes),
            (visit, visits),
            (time, times),
        ):
            plain &= np.array([each is not None for each in found], np.bool_)[codes]
        ok, given = ok[plain], given[plain] & ok[plain, None]
        said = [each or (Outcome.OK, "") for each in outcomes]
        return Records.of_columns(
            [each for each in candidates if each is not None],
            [each for each in platforms if each is not None],
            {
                "candidate": _places(candidates)[candidate[plain]],
                "platform": _places(platforms)[platform[plain]],
                "outcome": _taken([kind.value for kind, _ in said], outcome[plain]),
                "latencies_s": _lists(latencies_s[plain], given),
                "runs_per_repeat": np.where(ok, self._latency.runs_per_repeat, 0),
                "visit": np.array([each or 0 for each in visits], np.int64)[visit[plain]],
                "measured_at": _taken([each or "" for each in times], time[plain]),
                "error": _taken(["" if kind is Outcome.OK else text for kind, text in said], outcome[plain]),
            },
        ), plain

    def _latencies(self, table: Any) -> tuple[FloatArray, Mask, Mask]:
        """``(n, k)`` seconds and which of them are given, and ``(n,)`` whether those of a row can be."""
        if self._latency.separator:
            nothing = np.zeros((len(table), 1))
            return nothing, nothing > 0, np.zeros(len(table), np.bool_)
        columns = [_numbers(table[name].combine_chunks()) for name in self._latency.columns]
        numbers, given = (np.stack(parts, axis=1) for parts in zip(*columns, strict=True))
        per_second = PER_SECOND[self._latency.unit]
        possible = (numbers >= LEAST_S * per_second) & (numbers < MOST_S * per_second)
        return numbers / per_second, given, (possible | ~given).all(axis=1) & given.any(axis=1)


def _numbers(texts: Any) -> tuple[FloatArray, Mask]:
    """Numbers, NaN where a text is no usual one, and which texts are not empty."""
    given = np.asarray(pc.not_equal(pc.utf8_trim_whitespace(texts), ""))
    texts = pc.if_else(pa.array(given), texts, None)
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        usual = pc.match_substring_regex(texts, r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$")
        numbers = pc.cast(pc.if_else(usual, texts, "nan"), pa.float64())
    return np.asarray(pc.fill_null(numbers, np.nan)), given


def _names(*fields: Any) -> list[str]:
    """Return the columns of these fields, each once; a field that is a constant has none."""
    return list(dict.fromkeys(field.column for field in fields if hasattr(field, "column")))


def _distinct(table: Any, names: Sequence[str], read: Callable[[Row], T]) -> tuple[Codes, list[T | None]]:
    """Return what is made of each distinct combination of cells, None where it is not believed.

    Returns:
        ``(n,)`` position of each row's combination, and what is made of each.
    """
    if not names:
        return np.zeros(len(table), np.int64), [_believed(read, {})]
    codes = number_combinations([codes_of(table[name]) for name in names])
    first = np.unique(codes, return_index=True)[1]
    cells = table.select(names).take(pa.array(first)).to_pylist()
    return codes, [_believed(read, row) for row in cells]


def _believed(read: Callable[[Row], T], row: Row) -> T | None:
    try:
        return read(row)
    except EntryError:
        return None


def _places(found: Sequence[object]) -> Codes:
    """Place of each that is not None among those."""
    return np.cumsum([each is not None for each in found], dtype=np.int64) - 1


def _taken(texts: Sequence[str], codes: Codes) -> Any:
    return pa.array(texts, pa.string()).take(pa.array(codes))


def _lists(values: FloatArray, given: Mask) -> Any:
    """Return a column of lists: those values of each row that are given."""
    ends = np.cumsum(given.sum(axis=1), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), values[given])
