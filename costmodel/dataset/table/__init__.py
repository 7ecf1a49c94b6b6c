"""The table in memory and in files."""

from costmodel.dataset.table._arrow import dataset_from_measurements, to_dataset, to_table
from costmodel.dataset.table._checksums import (
    SUMS_NAME,
    add_checksum,
    check_checksum,
    dataset_hash,
    sha256_of,
    write_checksums,
)
from costmodel.dataset.table._dataset import Dataset, DatasetFile
from costmodel.dataset.table._locate import SHIPPED_DATASETS, find_dataset, parquet_file
from costmodel.dataset.table._parquet import (
    DatasetLike,
    check_dataset,
    iter_datasets,
    load_dataset,
    write_parquet,
)
from costmodel.dataset.table._rows import iter_measurements
from costmodel.dataset.table._schema import FILE_NAME, SCHEMA

__all__ = [
    "FILE_NAME",
    "SCHEMA",
    "SHIPPED_DATASETS",
    "SUMS_NAME",
    "Dataset",
    "DatasetFile",
    "DatasetLike",
    "add_checksum",
    "check_checksum",
    "check_dataset",
    "dataset_from_measurements",
    "dataset_hash",
    "find_dataset",
    "iter_datasets",
    "iter_measurements",
    "load_dataset",
    "parquet_file",
    "sha256_of",
    "to_dataset",
    "to_table",
    "write_checksums",
    "write_parquet",
]
