"""Which column of a table is what: a TOML file that someone writes for a table of another program."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq

from costmodel.dataset.importers._table_columns import ColumnReader, RowBlock, csv_blocks
from costmodel.dataset.importers._table_rows import ColumnMap, RowReader, read_column_map
from costmodel.dataset.sources._base import InputFile, ReadOptions
from costmodel.dataset.sources._platform_file import PlatformFile, find_platform_file, require_platform
from costmodel.dataset.sources._source import Entry, FileContents, Origin
from costmodel.errors import CostModelError
from costmodel.reading import Stream, open_unpacked, refusing
from costmodel.threads import make_ahead

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
