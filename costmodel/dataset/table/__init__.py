"""The table in memory and in files."""

from costmodel.dataset.table._candidates import CANDIDATES, Candidates
from costmodel.dataset.table._checksums import (
    SUMS_NAME,
    add_checksum,
    check_checksum,
    dataset_hash,
    sha256_of,
    write_checksums,
)
from costmodel.dataset.table._compare import differing, equal, keys_of
from costmodel.dataset.table._dataset import Dataset, DatasetFile, named
from costmodel.dataset.table._lists import lengths_of, medians, reduced
from costmodel.dataset.table._locate import SHIPPED_DATASETS, find_dataset, parquet_file
from costmodel.dataset.table._parquet import (
    DatasetLike,
    check_dataset,
    dataset_from_measurements,
    iter_datasets,
    iter_measurements,
    iter_records,
    load_dataset,
    write_parquet,
)
from costmodel.dataset.table._records import ROWS, Records
from costmodel.dataset.table._same import codes_of, number, same
from costmodel.dataset.table._schema import FILE_NAME, SCHEMA

__all__ = [
    "CANDIDATES",
    "FILE_NAME",
    "ROWS",
    "SCHEMA",
    "SHIPPED_DATASETS",
    "SUMS_NAME",
    "Candidates",
    "Dataset",
    "DatasetFile",
    "DatasetLike",
    "Records",
    "add_checksum",
    "check_checksum",
    "check_dataset",
    "codes_of",
    "dataset_from_measurements",
    "dataset_hash",
    "differing",
    "equal",
    "find_dataset",
    "iter_datasets",
    "iter_measurements",
    "iter_records",
    "keys_of",
    "lengths_of",
    "load_dataset",
    "medians",
    "named",
    "number",
    "parquet_file",
    "reduced",
    "same",
    "sha256_of",
    "write_checksums",
    "write_parquet",
]
