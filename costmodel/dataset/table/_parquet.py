"""The dataset file: written with the same bytes each time, read with checks."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.table._checksums import check_checksum, sha256_of
from costmodel.dataset.table._dataset import Dataset, DatasetFile
from costmodel.dataset.table._locate import parquet_file
from costmodel.dataset.table._records import Records
from costmodel.dataset.table._same import codes_of
from costmodel.dataset.table._schema import SCHEMA
from costmodel.errors import CostModelError
from costmodel.files import replacing
from costmodel.records import Measurement

# A dataset, the name of one that ships, or a path.
DatasetLike = Dataset | str | Path

GROUP_ROWS = 16_384  # of the groups of rows in a file; read at once, too
# Columns whose texts repeat, which are read as places in a dictionary.
_REPEATED = [
    *("workload", "kind", "dims", "dtype", "candidate_id", "space", "config", "platform_id", "software"),
]


@contextmanager
def write_parquet(file: Path) -> Iterator[Callable[[Records], None]]:
    """Write measurements in parts, one after the other; the file is there once all of them are, if any.

    The same rows give the same bytes with the same release of pyarrow, however they are cut into parts.
    """
    settings = {"compression": "zstd", "compression_level": 12, "write_page_checksum": True}
    writer: pq.ParquetWriter | None = None
    rest = Records.concat([])
    with ExitStack() as cleanup:

        def write(part: Records) -> None:
            nonlocal writer, rest
            if writer is None:
                partial = cleanup.enter_context(replacing(file))
                writer = cleanup.enter_context(pq.ParquetWriter(partial, SCHEMA, **settings))
            rest = Records.concat([rest, part]) if len(rest) else part
            whole = len(rest) - len(rest) % GROUP_ROWS
            for start in range(0, whole, GROUP_ROWS):
                writer.write_table(rest.slice(start, GROUP_ROWS).table())
            rest = rest.slice(whole)

        yield write
        if writer is not None:
            writer.write_table(rest.table())
            writer.close()


def iter_records(dataset: DatasetLike | None, track: Track = untracked) -> Iterator[Records]:
    """The measurements of a dataset in parts, each row with its own launches, device and software.

    Args:
        dataset: The dataset, its name or its path; see ``load_dataset``.
        track: Shows how far it is.

    Raises:
        CostModelError: The file is missing, damaged or of another format.
    """
    if isinstance(dataset, Dataset):
        yield dataset.to_records()
        return
    with open_parquet(dataset) as file:
        batches = file.iter_batches(GROUP_ROWS)
        for batch in track(batches, "reading", -(-file.metadata.num_rows // GROUP_ROWS)):
            try:
                yield Records.from_table(pa.Table.from_batches([batch]))
            except (ValueError, msgspec.MsgspecError, CostModelError) as error:
                raise _unreadable(parquet_file(dataset), error) from error


def iter_measurements(dataset: DatasetLike | None, track: Track = untracked) -> Iterator[Measurement]:
    """Every measurement of a dataset as an object; see ``iter_records``."""
    for records in iter_records(dataset, track):
        yield from records.measurements()


def iter_datasets(dataset: str | Path | None = None, track: Track = untracked) -> Iterator[Dataset]:
    """Read a dataset one workload at a time, in the order of the file; see ``load_dataset``."""
    parts: list[Records] = []
    for records in iter_records(dataset, track):
        for part in _runs(records):
            if parts and _workload(part) != _workload(parts[0]):
                yield Dataset.of(Records.concat(parts))
                parts = []
            parts.append(part)
    yield Dataset.of(Records.concat(parts))


def _runs(records: Records) -> Iterator[Records]:
    """The rows of each workload that stand together."""
    workload = codes_of(records.candidates["workload"])[records.candidate]
    cuts = [0, *(np.flatnonzero(np.diff(workload)) + 1).tolist(), len(records)]
    return (records.slice(start, end - start) for start, end in pairwise(cuts))


def _workload(records: Records) -> str:
    """The workload of the first row."""
    name: str = records.candidates["workload"][int(records.candidate[0])].as_py()
    return name


def dataset_from_measurements(measurements: Iterable[Measurement]) -> Dataset:
    """The dataset of measurements in memory; see ``Dataset.of`` for what rows of one platform share."""
    return Dataset.of(Records.of(measurements))


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
    records = Records.concat(list(iter_records(dataset)))
    name = parquet_file(dataset)
    return Dataset.of(records, DatasetFile(name, sha256_of(name)))


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
        if not (schema := pq.read_schema(name)).equals(SCHEMA):
            raise CostModelError(
                f"{name} must hold the columns of a costmodel dataset, but got {_difference(schema)}: give a "
                "file that `costmodel dataset build` of this version wrote."
            )
        with pq.ParquetFile(name, page_checksum_verification=True, read_dictionary=_REPEATED) as file:
            if not file.metadata.num_rows:
                raise CostModelError(f"{name} must hold measurements, but it has no rows: build it again.")
            yield file
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name, error) from error


def _unreadable(file: Path, error: Exception) -> CostModelError:
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
