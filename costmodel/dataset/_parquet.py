"""The dataset file: written with the same bytes each time, read with checks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset._arrow import to_dataset
from costmodel.dataset._checksums import check_checksum, parquet_file
from costmodel.dataset._dataset import Dataset
from costmodel.dataset._schema import SCHEMA
from costmodel.errors import CostModelError

BATCH_ROWS = 16_384  # also of the groups of rows in a file


def write_parquet(table: Any, file: Path) -> None:
    """Write a table of ``SCHEMA``; the same table gives the same bytes with the same release of pyarrow."""
    partial = file.with_name(f"{file.name}.partial")
    pq.write_table(
        table,
        partial,
        compression="zstd",
        compression_level=12,
        row_group_size=BATCH_ROWS,
        write_page_checksum=True,
    )
    partial.replace(file)


def load_dataset(path: Path) -> Dataset:
    """Read a dataset.

    Launches of a candidate, and device and requested SMs of a platform, are those of its first row. A
    platform measured under several versions of a software carries them all, as in ``"580.1, 590.2"``.

    Args:
        path: The dataset's folder, or its parquet file.

    Raises:
        CostModelError: The file is missing, damaged, of another format, or not the one that the checksums
            beside it name.

    Example:
        >>> load_dataset(Path("nowhere"))
        Traceback (most recent call last):
            ...
        costmodel.errors.CostModelError: A dataset must be a folder with ...: nowhere is not there.
    """
    with open_parquet(path) as file:
        return to_dataset(file.read())


def check_dataset(path: Path) -> None:
    """Check that a folder or file is a dataset; see ``load_dataset`` for errors."""
    with open_parquet(path):
        pass


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """The ``pyarrow.parquet.ParquetFile`` of a dataset, once it is known to be one; see ``load_dataset``."""
    name = parquet_file(path)
    check_checksum(name.parent, name.name)
    try:
        with pq.ParquetFile(name, page_checksum_verification=True) as file:
            if not file.schema_arrow.equals(SCHEMA):
                raise CostModelError(
                    f"{name} must hold the columns of a costmodel dataset, but got "
                    f"{_difference(file.schema_arrow)}: give a file that `costmodel dataset build` of this "
                    "version wrote."
                )
            if not file.metadata.num_rows:
                raise CostModelError(f"{name} must hold measurements, but it has no rows: build it again.")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error


def unreadable(file: Path, error: Exception) -> CostModelError:
    """What to raise when a parquet file cannot be read."""
    return CostModelError(
        f"{file} must be a parquet file, but cannot be read: it is damaged or of another format "
        f"({str(error).splitlines()[0]})."
    )


def _difference(schema: Any) -> str:
    """What is wrong with a schema, in a few words."""
    missing = [name for name in SCHEMA.names if name not in schema.names]
    foreign = [name for name in schema.names if name not in SCHEMA.names]
    other = [f.name for f in schema if f.name in SCHEMA.names and not f.equals(SCHEMA.field(f.name))]
    parts = (("no column", missing), ("the column", foreign), ("another type of", other))
    found = [f"{what} {', '.join(names[:3])}" for what, names in parts if names]
    return " and ".join(found) or "another order of columns"
