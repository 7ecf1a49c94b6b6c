"""What was read of the kernels of a dataset, in a file beside its measurements."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._files import SUMS_NAME, add_checksums, check_checksum
from costmodel.dataset.table._parquet import WRITE_SETTINGS
from costmodel.errors import CostModelError
from costmodel.files import replacing
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts, Reading
from costmodel.reading import is_file, refusing

READ_FACTS_NAME = "read_facts.parquet"


def read_facts_folder(dataset: Dataset) -> Path:
    """Return the folder of a dataset, where what was read of its kernels lies.

    Raises:
        CostModelError: The dataset is of no file.
    """
    if dataset.file is None:
        raise CostModelError(
            f"A dataset must have been read from a file to have read facts, but {dataset.name} was not."
        )
    return dataset.file.path.resolve().parent


def write_read_facts(
    folder: Path, readings: Mapping[str, Reading], metadata: Mapping[str, str] | None = None
) -> Path:
    """Write what was read of each kernel, by candidate id; the same readings give the same bytes.

    Args:
        folder: Folder of the dataset.
        readings: By candidate id.
        metadata: What it was read with, such as the version of the compiler.
    """
    ids = sorted(readings)
    columns: dict[str, Any] = {"candidate_id": ids, "note": [readings[each].note for each in ids]}
    for name in READ_FACTS:
        columns[name] = pa.array([getattr(readings[each].facts, name) for each in ids], pa.float64())
    table = pa.table(columns).replace_schema_metadata(dict(metadata or {}))
    file = folder / READ_FACTS_NAME
    with replacing(file) as temporary:
        pq.write_table(table, temporary.absolute(), **WRITE_SETTINGS)
    if is_file(folder / SUMS_NAME):
        add_checksums(folder, [READ_FACTS_NAME])
    return file


def load_read_facts(dataset: Dataset) -> dict[str, ReadFacts]:
    """Return what was read of the kernels of a dataset, by candidate id; not those of which nothing was.

    Raises:
        CostModelError: The dataset has no read facts, or its file cannot be read.
    """
    folder = read_facts_folder(dataset)
    file = folder / READ_FACTS_NAME
    if not is_file(file):
        raise CostModelError(
            f"{folder} must have {READ_FACTS_NAME}, but has not. The clone has those of included "
            f"datasets; make others with `costmodel dataset read-facts {folder}`."
        )
    check_checksum(folder, READ_FACTS_NAME)
    with refusing(file, "a table of read facts", "Make it again with `costmodel dataset read-facts`."):
        table = pq.read_table(file.absolute())
        known = [name for name in READ_FACTS if name in table.column_names]
        values = np.column_stack([table[name].to_numpy() for name in known])
        return {
            candidate: ReadFacts(**dict(zip(known, row, strict=True)))
            for candidate, row in zip(table["candidate_id"].to_pylist(), values.tolist(), strict=True)
            if not np.isnan(row[0])
        }
