"""Costmodel's own formats: record stores, and datasets."""

from costmodel.dataset.importers._base import InputFile, ReadOptions
from costmodel.dataset.importers._source import Source
from costmodel.dataset.table._read import iter_records
from costmodel.errors import CostModelError
from costmodel.records._store import read_records


def read_dataset(file: InputFile, _: ReadOptions) -> Source:
    """Read a dataset.

    Raises:
        CostModelError: It is another table in Parquet.
    """
    try:
        return Source.of(file.path, iter_records(file.path))
    except CostModelError as error:
        raise CostModelError(
            f"{error} A table of another program needs `--columns map.toml`, which maps its columns; "
            "`costmodel dataset build --help` shows an example."
        ) from None


def read_store(file: InputFile, _: ReadOptions) -> Source:
    """Read a record store, without its lock."""
    return Source.of(file.path, read_records(file.path))
