"""Costmodel's own formats: record stores, and datasets."""

from costmodel.dataset.importers._base import Format, InputFile, ReadOptions
from costmodel.dataset.importers._source import Source
from costmodel.dataset.table._read import iter_records
from costmodel.errors import CostModelError
from costmodel.records._store import read_records

PARQUET = b"PAR1"


def _is_dataset(file: InputFile, options: ReadOptions) -> bool:
    return file.head.startswith(PARQUET) and options.columns is None


def _read_dataset(file: InputFile, _: ReadOptions) -> Source:
    try:
        return Source.of(file.path, iter_records(file.path))
    except CostModelError as error:
        raise CostModelError(
            f"{error} A table of another program needs `--columns map.toml`, which maps its columns; "
            "`costmodel dataset build --help` shows an example."
        ) from None


DATASET = Format("dataset", _is_dataset, _read_dataset)
# Whatever is nothing else: a damaged store must be told as one.
RECORD_STORE = Format(
    "record store",
    lambda file, _: not (file.packed or file.is_list),
    lambda file, _: Source.of(file.path, read_records(file.path)),
)
