"""Parquet files of measurements: read a group of rows at a time, with checks; written whole or not at all."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from costmodel.arguments import is_text
from costmodel.dataset.table._files import Partition, part_name
from costmodel.dataset.table._records import FACTS, Records, columns_for
from costmodel.dataset.table._schema import DATA_SCHEMA, FILE_NAME, SCHEMA, has_data_facts, narrow, widen
from costmodel.errors import CostModelError
from costmodel.files import replacing
from costmodel.opening import most_unpacked, open_file
from costmodel.reading import say_looks
from costmodel.threads import SecondThread

# Columns whose texts repeat, which are read as places in a dictionary.
_REPEATED = [
    *("workload", "kind", "dims", "dtype", "candidate_id", "space", "config", "platform_id", "software"),
]
_MOST_GROUP = 2**29  # bytes; a group that is written here takes 9 million


class ParquetPart:
    """The groups of rows of a file, of which one is in memory, and the file open, while it is read.

    Args:
        file: The file.
        workloads: Names of the workloads that are needed; all if None. Groups that have none of them, as the
            file's statistics tell, are passed over.
        devices: Names of the devices that are needed, likewise.

    Attributes:
        groups: Positions of the groups that are read.

    Raises:
        CostModelError: The file is missing, damaged or of another format.
    """

    def __init__(
        self,
        file: Path,
        workloads: Collection[str] | None = None,
        devices: Collection[str] | None = None,
    ) -> None:
        self._file = file
        with _readable(file), open_file(file) as stream, pq.ParquetFile(stream) as opened:
            _check_schema(file, opened.schema_arrow)
            _check_size(file, opened.metadata)
            self._metadata = opened.metadata
        if not self._metadata.num_rows:
            raise CostModelError(f"{file} must contain measurements, but has no rows. Build it again.")
        self.groups = self._groups({"workload": workloads, "device.name": devices})

    def records(self, facts: Collection[str] = FACTS) -> Iterator[Records]:
        """Yield the measurements of each group.

        Args:
            facts: What is read of them, of ``FACTS``.

        Raises:
            CostModelError: They cannot be read, or are none.
        """
        for table in self.columns(columns_for(facts)):
            try:
                records = Records.from_table(table)
            except (ValueError, msgspec.MsgspecError, CostModelError) as error:
                raise _unreadable(self._file, error) from error
            yield records

    def columns(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield a ``pyarrow.Table`` of each group, with these columns.

        Raises:
            CostModelError: They cannot be read.
        """
        for group in self.groups:
            with _readable(self._file), self._open() as opened:
                table = opened.read_row_group(group, names)
            yield table

    def _groups(self, needed: Mapping[str, Collection[str] | None]) -> list[int]:
        """Return positions of the groups that may have a row with needed values in each of these columns."""
        groups = list(range(self._metadata.num_row_groups))
        for column, names in needed.items():
            if names is not None:
                # Of damaged statistics pyarrow.parquet makes an end of the process, and this an error.
                fragment = pads.ParquetFileFormat().make_fragment(
                    str(self._file), LocalFileSystem(), row_groups=groups
                )
                field = pads.field(*column.split("."))
                texts = [name for name in names if is_text(name)]
                between = (field >= min(texts, default="")) & (field <= max(texts, default=""))
                with _readable(self._file):
                    groups = [group.id for group in fragment.subset(between, SCHEMA).row_groups]
        return groups

    def _open(self) -> Any:
        return pq.ParquetFile(
            self._file.absolute(),
            metadata=self._metadata,
            page_checksum_verification=True,
            read_dictionary=_REPEATED,
        )


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> CostModelError:
    """Return what to raise when a parquet file cannot be read."""
    return CostModelError(
        f"{file} must be a parquet file, but cannot be read: it is damaged or in another format "
        f"({str(error).splitlines()[0].rstrip('.')}). {say_looks(file, 'a parquet file', 'parquet')}".rstrip()
    )


def _check_size(file: Path, metadata: Any) -> None:
    """Check that rows take no more memory than their file accounts for: what repeats packs to almost nothing.

    Raises:
        CostModelError: They take more.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    cells = max((group.num_rows * group.num_columns for group in groups), default=0)
    unpacked = max((group.total_byte_size for group in groups), default=0)
    most = most_unpacked(file)
    if 8 * metadata.num_rows * metadata.num_columns > most or max(8 * cells, unpacked) > _MOST_GROUP:
        raise CostModelError(
            f"{file} must have groups of rows of at most {_MOST_GROUP:,} bytes in memory, and {most:,} bytes "
            f"in all, but its {metadata.num_rows:,} rows take more and may be meant to exhaust memory. Build "
            "it again from its records."
        )


def _check_schema(file: Path, schema: Any) -> None:
    """Check the columns of a file.

    Raises:
        CostModelError: They are others.
    """
    if schema.equals(SCHEMA) or schema.equals(DATA_SCHEMA):
        return
    missing = [name for name in SCHEMA.names if name not in schema.names]
    foreign = [name for name in schema.names if name not in SCHEMA.names]
    other = [f.name for f in schema if f.name in SCHEMA.names and not f.equals(SCHEMA.field(f.name))]
    parts = (("no column", missing), ("the column", foreign), ("another type of", other))
    found = " and ".join(f"{what} {', '.join(names[:3])}" for what, names in parts if names)
    raise CostModelError(
        f"{file} must have the columns of a costmodel dataset, but got "
        f"{found or 'another order of columns'}. Give a file that `costmodel dataset build` of this version "
        "wrote."
    )


GROUP_ROWS = 16_384  # of the groups of rows in a file; read at once, too
WRITE_SETTINGS: dict[str, Any] = {"compression": "zstd", "compression_level": 12, "write_page_checksum": True}


class _Groups:
    """Writes groups of rows into a file, all with the columns ``DATA_SCHEMA`` once any of them needs these.

    Args:
        file: The file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.absolute()  # Arrow takes a path that begins with http: for an address
        self._rest = Records.concat([])
        self._has_data_facts = False
        self._writer = pq.ParquetWriter(self._file, SCHEMA, **WRITE_SETTINGS)

    def add(self, part: Records) -> None:
        """Write the groups that a part fills."""
        rest = Records.concat([self._rest, part]) if len(self._rest) else part
        whole = len(rest) - len(rest) % GROUP_ROWS
        for start in range(0, whole, GROUP_ROWS):
            self._write(rest.slice(start, GROUP_ROWS).table())
        self._rest = rest.slice(whole)

    def finish(self) -> None:
        """Write the last group."""
        self._write(self._rest.table())

    def close(self) -> None:
        """Nothing more is written."""
        self._writer.close()

    def _write(self, table: Any) -> None:
        table = narrow(table)
        if has_data_facts(table) and not self._has_data_facts:
            self._begin_again()
        self._writer.write_table(widen(table) if self._has_data_facts else table)

    def _begin_again(self) -> None:
        """Write what is written once more, with the columns ``DATA_SCHEMA``."""
        self._writer.close()
        self._has_data_facts = True
        with self._file.open("rb") as written:
            self._file.unlink()  # what is open can be read on
            self._writer = pq.ParquetWriter(self._file, DATA_SCHEMA, **WRITE_SETTINGS)
            groups = pq.ParquetFile(written)
            for group in range(groups.num_row_groups):
                self._writer.write_table(widen(groups.read_row_group(group)))


@contextmanager
def write_parquet(file: Path) -> Iterator[Callable[[Records], None]]:
    """Write measurements in parts, one after the other; the file is there once all of them are, if any.

    A part is written on a thread while the next one is made: packing it leaves Python free.
    The same rows give the same bytes with the same release of pyarrow, however they are cut into parts.
    """
    groups: _Groups | None = None
    beside = SecondThread()

    with ExitStack() as cleanup:

        def write(part: Records) -> None:
            """Begin to write, once the part before is written."""
            nonlocal groups
            if groups is None:
                partial = cleanup.enter_context(replacing(file))
                groups = cleanup.enter_context(closing(_Groups(partial)))
                cleanup.enter_context(beside)
            beside.run(groups.add, part)

        yield write
        if groups is not None:
            beside.wait()
            groups.finish()


class DatasetWriter:
    """Writes measurements into a dataset's folder; the files are there when it is closed without an error.

    Args:
        folder: The folder.
        partition: What has a folder of its own; None for one file.
        number: Number of the parts.

    Attributes:
        names: The files so far, relative to the folder.
    """

    def __init__(self, folder: Path, partition: Partition | None, number: int = 0) -> None:
        self.names: list[str] = []
        self._folder, self._partition, self._number = folder, partition, number
        self._cleanup = ExitStack()
        self._writes: dict[str, Callable[[Records], None]] = {}

    def write(self, records: Records) -> None:
        """Write all measurements of a workload; workloads come in the order of their names."""
        if self._partition == "workload":
            # One after the other, so that thousands of them need no more open files than one.
            for workload, part in records.by_workload():
                with write_parquet(self._named(part_name("workload", workload, self._number))) as write:
                    write(part)
            return
        for name, part in self._parts(records):
            if name not in self._writes:
                self._writes[name] = self._cleanup.enter_context(write_parquet(self._named(name)))
            self._writes[name](part)

    def _parts(self, records: Records) -> Iterator[tuple[str, Records]]:
        """Yield what goes into each file."""
        if self._partition is None:
            yield FILE_NAME, records
            return
        devices = np.array([each.device.name for each in records.platforms], dtype=object)
        for device in np.unique(devices[np.unique(records.platform)]):
            rows = np.flatnonzero((devices == device)[records.platform])
            yield part_name("device", str(device), self._number), records.take(rows)

    def _named(self, name: str) -> Path:
        self.names.append(name)
        return self._folder / name

    def __enter__(self) -> Self:
        self._cleanup.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.__exit__(*error)  # type: ignore[arg-type]
