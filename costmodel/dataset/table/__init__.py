"""The table in memory and in files."""

from costmodel.dataset.table._candidates import CANDIDATES, Candidates
from costmodel.dataset.table._checksums import (
    SUMS_NAME,
    add_checksums,
    check_checksum,
    sha256_of,
    write_checksums,
)
from costmodel.dataset.table._compare import differing, equal, keys_of
from costmodel.dataset.table._dataset import Dataset, DatasetFile, named
from costmodel.dataset.table._files import (
    PARTITIONS,
    DataFiles,
    Partition,
    dataset_hash,
    remove_other_files,
)
from costmodel.dataset.table._launches import schema_of
from costmodel.dataset.table._lists import lengths_of, medians, reduced
from costmodel.dataset.table._locate import SHIPPED_DATASETS, find_dataset, is_dataset_folder
from costmodel.dataset.table._order import in_order
from costmodel.dataset.table._read import (
    DatasetLike,
    check_dataset,
    dataset_from_measurements,
    devices_in,
    families_in,
    iter_datasets,
    iter_measurements,
    iter_records,
    load_dataset,
    workloads_in,
)
from costmodel.dataset.table._records import LATENCIES, ROWS, Records
from costmodel.dataset.table._same import codes_of, number, same
from costmodel.dataset.table._schema import DATA_SCHEMA, FILE_NAME, PARTS_NAME, SCHEMA
from costmodel.dataset.table._write import DatasetWriter, write_parquet

__all__ = [
    "CANDIDATES",
    "DATA_SCHEMA",
    "FILE_NAME",
    "LATENCIES",
    "PARTITIONS",
    "PARTS_NAME",
    "ROWS",
    "SCHEMA",
    "SHIPPED_DATASETS",
    "SUMS_NAME",
    "Candidates",
    "DataFiles",
    "Dataset",
    "DatasetFile",
    "DatasetLike",
    "DatasetWriter",
    "Partition",
    "Records",
    "add_checksums",
    "check_checksum",
    "check_dataset",
    "codes_of",
    "dataset_from_measurements",
    "dataset_hash",
    "devices_in",
    "differing",
    "equal",
    "families_in",
    "find_dataset",
    "in_order",
    "is_dataset_folder",
    "iter_datasets",
    "iter_measurements",
    "iter_records",
    "keys_of",
    "lengths_of",
    "load_dataset",
    "medians",
    "named",
    "number",
    "reduced",
    "remove_other_files",
    "same",
    "schema_of",
    "sha256_of",
    "workloads_in",
    "write_checksums",
    "write_parquet",
]
