"""One parquet file of measurements, read a group of rows at a time, with checks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from costmodel.arguments import is_text
from costmodel.dataset.table._records import FACTS, Records, columns_for
from costmodel.dataset.table._schema import DATA_SCHEMA, SCHEMA
from costmodel.errors import CostModelError
from costmodel.reading import most_unpacked, open_file

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
            self._file, metadata=self._metadata, page_checksum_verification=True, read_dictionary=_REPEATED
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
        f"({str(error).splitlines()[0]})."
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
