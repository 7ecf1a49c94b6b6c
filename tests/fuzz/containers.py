"""Files that hold others, taken apart and put together: what a checksum guards is altered behind it, too.

A changed byte of a record store, an archive or a table is mostly found by its checksum or its format, before
anything reads a value. Here a part is altered, and the file made whole around it.
"""

import io
import json
import random
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset.table._files import SUMS_NAME, add_checksums, read_checksums
from costmodel.records._line_file import _DamagedLineError, _encode_line, _parse_line

Alter = Callable[[bytes], bytes]
_NO_SUCH_FILE = (
    _DamagedLineError,
    LookupError,
    ValueError,
    zipfile.BadZipFile,
    pa.ArrowException,
    sqlite3.DatabaseError,
)


def alter_inside(path: Path, alter: Alter, rng: random.Random) -> bool:
    """Alter a part of a file that holds parts; whether it does.

    Args:
        path: The file: valid, and of any format.
        alter: Alters a part, as JSON where it is a row.
        rng: Chooses the part.
    """
    for of_kind in (_alter_line, _alter_member, _alter_table, _alter_database):
        with suppress(*_NO_SUCH_FILE):
            of_kind(path, alter, rng)
            return True
    return False


def reseal(path: Path) -> None:
    """Make the checksum of a file right again, if its folder, or the one above, has one."""
    for folder in (path.parent, path.parent.parent):
        name = str(path.relative_to(folder))
        if (folder / SUMS_NAME).is_file() and name in read_checksums(folder):
            add_checksums(folder, [name])


def _alter_line(path: Path, alter: Alter, rng: random.Random) -> None:
    """A record of a store whose lines have checksums."""
    lines = path.read_bytes().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = _encode_line(alter(_parse_line(lines[at])).replace(b"\n", b" ") or b"0")
    path.write_bytes(b"".join(lines))


def _alter_member(path: Path, alter: Alter, rng: random.Random) -> None:
    """A member of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    members[name] = alter(members[name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    path.write_bytes(buffer.getvalue())


def _alter_table(path: Path, alter: Alter, rng: random.Random) -> None:
    """A row of a Parquet table, or the type of a column."""
    table = pq.read_table(path)
    if rng.random() < 0.3:
        table = _retyped(table, rng)
    else:
        rows = table.to_pylist()
        at = rng.randrange(len(rows))
        rows[at] = _altered_row(rows[at], alter, rng)
        with suppress(pa.ArrowException, OverflowError):
            table = _as_table(rows, table.schema, rng)
    pq.write_table(table, path)


def _retyped(table: pa.Table, rng: random.Random) -> pa.Table:
    at = rng.randrange(table.num_columns)
    name, count = table.column_names[at], table.num_rows
    column = rng.choice(
        (
            pa.nulls(count),
            pa.array([b"\xff\x00"] * count),
            pa.array([{"a": [1]}] * count),
            pa.array([float("nan")] * count),
            pa.array([-1] * count, pa.int8()),
            pa.array([2**63 - 1] * count),
            pa.array(["x"] * count).dictionary_encode(),
            pa.array([0] * count, pa.timestamp("ns")),
            pa.array([[]] * count, pa.list_(pa.null())),
        )
    )
    if rng.random() < 0.2:
        return table.remove_column(at)
    return table.set_column(at, name, column)


def _as_table(rows: list[dict[str, Any]], schema: pa.Schema, rng: random.Random) -> pa.Table:
    """Rows as a table: of the schema that they had, or of whatever they are now."""
    return pa.Table.from_pylist(rows, schema if rng.random() < 0.7 else None)


def _alter_database(path: Path, alter: Alter, rng: random.Random) -> None:
    """A row of SQLite."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [
            each[0] for each in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = [
            (name, row)
            for name in names
            for row in connection.execute(f'SELECT rowid AS "rowid", * FROM "{name}" LIMIT 20')
        ]
        name, row = rng.choice(rows)
        values = {key: row[key] for key in row.keys() if key != "rowid"}  # noqa: SIM118 (no mapping)
        for key, value in _altered_row(values, alter, rng).items():
            if key in values and value != values[key]:
                with suppress(sqlite3.IntegrityError, OverflowError, UnicodeError):
                    command = f'UPDATE "{name}" SET "{key}" = ? WHERE rowid = ?'
                    connection.execute(command, (_cell(value), row["rowid"]))
        connection.commit()


def _altered_row(row: dict[str, Any], alter: Alter, rng: random.Random) -> dict[str, Any]:
    """A row with a value altered: within the text that it is, or as a whole."""
    key = rng.choice(list(row))
    text = row[key] if isinstance(row[key], str) and rng.random() < 0.7 else json.dumps(row[key], default=str)
    altered: Any = alter(text.encode()).decode(errors="replace")
    with suppress(ValueError, RecursionError):
        altered = json.loads(altered) if altered != text and not isinstance(row[key], str) else altered
    return {**row, key: altered}


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)
