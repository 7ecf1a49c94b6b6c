"""The dataset file: written with the same bytes each time, read with checks."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.table._arrow import to_dataset
from costmodel.dataset.table._checksums import check_checksum, sha256_of
from costmodel.dataset.table._dataset import Dataset, DatasetFile
from costmodel.dataset.table._locate import parquet_file
from costmodel.dataset.table._schema import SCHEMA
from costmodel.errors import CostModelError
from costmodel.files import replacing

# A dataset, the name of one that ships, or a path.
DatasetLike = Dataset | str | Path

BATCH_ROWS = 16_384  # also of the groups of rows in a file


@contextmanager
def write_parquet(file: Path) -> Iterator[Callable[[Any], None]]:
    """Write tables of ``SCHEMA`` one after the other; the file is there once all of them are, if any.

    The same rows give the same bytes with the same release of pyarrow, however they are cut into tables.
    """
    settings = {"compression": "zstd", "compression_level": 12, "write_page_checksum": True}
    writer: pq.ParquetWriter | None = None
    rest = SCHEMA.empty_table()
    with ExitStack() as cleanup:

        def write(table: Any) -> None:
            nonlocal writer, rest
            if writer is None:
                partial = cleanup.enter_context(replacing(file))
                writer = cleanup.enter_context(pq.ParquetWriter(partial, SCHEMA, **settings))
            rest = pa.concat_tables([rest, table])
            while len(rest) >= BATCH_ROWS:
                writer.write_table(rest.slice(0, BATCH_ROWS).combine_chunks())
                rest = rest.slice(BATCH_ROWS)

        yield write
        if writer is not None:
            writer.write_table(rest.combine_chunks())
            writer.close()


def iter_datasets(dataset: str | Path | None = None, track: Track = untracked) -> Iterator[Dataset]:
    """Read a dataset one workload at a time, in the order of the file; see ``load_dataset``."""
    with open_parquet(dataset) as file:
        rest = SCHEMA.empty_table()
        for batch in iter_batches(file, track):
            rest = pa.concat_tables([rest, pa.Table.from_batches([batch])])
            *whole, rest = _by_workload(rest)
            yield from map(to_dataset, whole)
        yield to_dataset(rest)


def iter_batches(file: Any, track: Track) -> Iterable[Any]:
    """Batches of rows of an open dataset."""
    return track(file.iter_batches(BATCH_ROWS), "reading", -(-file.metadata.num_rows // BATCH_ROWS))


def _by_workload(table: Any) -> list[Any]:
    """The rows of each workload, whose rows stand together."""
    runs = table["workload"].combine_chunks().dictionary_encode().indices.to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(runs)) + 1), len(table)]
    return [table.slice(start, end - start) for start, end in pairwise(cuts)]


def load_dataset(dataset: DatasetLike | None = None) -> Dataset:
    """Read a dataset; whatever takes a dataset, its name or its path calls this.

    Launches of a candidate, and device and requested SMs of a platform, are those of its first row. A
    platform measured under several versions of a software carries them all, as in ``"580.1, 590.2"``.

    Args:
        dataset: The name of one that ships (``h100-sm-budgets``, which None stands for, or ``sm-budgets``), a
            dataset's folder, or its parquet file; a ``Dataset`` comes back as it is.

    Raises:
        CostModelError: The file is missing, damaged, of another format, or not the one that the checksums
            beside it name.

    Example:
        >>> load_dataset("nowhere")
        Traceback (most recent call last):
            ...
        costmodel.errors.CostModelError: A dataset must be a folder with ...: nowhere is not there.
    """
    if isinstance(dataset, Dataset):
        return dataset
    with open_parquet(dataset) as file:
        name = parquet_file(dataset)
        return replace(to_dataset(file.read()), file=DatasetFile(name, sha256_of(name)))


def check_dataset(dataset: str | Path | None) -> None:
    """Check that a folder or file is a dataset; see ``load_dataset`` for errors."""
    with open_parquet(dataset):
        pass


@contextmanager
def open_parquet(dataset: str | Path | None) -> Iterator[Any]:
    """The ``pyarrow.parquet.ParquetFile`` of a dataset, once it is known to be one; see ``load_dataset``."""
    name = parquet_file(dataset)
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
