"""Tables of other programs in CSV or Parquet: a file that someone writes says which column is what.

Blocks of lines are read as columns where they are plain, and row by row where they are not.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costmodel.arrays import FloatArray
from costmodel.dataset.importers._table_blocks import RowBlock, RowError, read_row_blocks
from costmodel.dataset.importers._table_rows import Row, RowReader, read_column_map
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
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, Outcome
from costmodel.threads import make_ahead

T = TypeVar("T")


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
        for block in make_ahead(read_row_blocks(path, columns.names, columns.delimiter)):
            yield list(reader.read(block, origin, number))
            number += len(block)

    yield from chain.from_iterable(make_ahead(read()))


def read_config_table(path: Path, column_map: Path) -> list[Candidate]:
    """Read kernels that were not measured: what the columns of workload, sizes and parameters say.

    Args:
        path: A Parquet file, or a CSV file in UTF-8 with a header.
        column_map: TOML file that says which column is what; the others need not be there.

    Raises:
        CostModelError: A file cannot be read, a column is missing, or a row is no kernel.
    """
    columns = read_column_map(column_map)
    reader = RowReader(columns, None, "")
    blocks = read_row_blocks(path, columns.of_candidate, columns.delimiter)
    rows = chain.from_iterable(block if isinstance(block, list) else block.to_pylist() for block in blocks)

    def read(number: int, row: Row | RowError) -> Candidate:
        try:
            if isinstance(row, RowError):
                raise row
            return reader.candidate(row)
        except EntryError as error:
            raise CostModelError(f"{path}, row {number}: {error}.") from None

    return [read(number, row) for number, row in enumerate(rows, 1)]


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
        self._of_candidate = columns.of_candidate
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
