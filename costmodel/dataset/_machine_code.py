"""What is in the machine code of a dataset's kernels, in a file beside its measurements."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costmodel.dataset._read_facts import read_facts_folder
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._files import SUMS_NAME, add_checksums, check_checksum
from costmodel.dataset.table._parquet import WRITE_SETTINGS
from costmodel.errors import CostModelError
from costmodel.files import replacing
from costmodel.kernels._machine_code import MACHINE_CODE_FACTS, MachineCode
from costmodel.reading import is_file, refusing

MACHINE_CODE_NAME = "machine_code.parquet"


def write_machine_code(folder: Path, counted: Mapping[str, MachineCode]) -> Path:
    """Write what was counted of each kernel, by candidate id; the same counts give the same bytes.

    Args:
        folder: Folder of the dataset.
        counted: By candidate id.
    """
    ids = sorted(counted)
    columns: dict[str, Any] = {"candidate_id": ids}
    for name in MACHINE_CODE_FACTS:
        columns[name] = pa.array([int(getattr(counted[each], name)) for each in ids], pa.int32())
    file = folder / MACHINE_CODE_NAME
    with replacing(file) as temporary:
        pq.write_table(pa.table(columns), temporary.absolute(), **WRITE_SETTINGS)
    if is_file(folder / SUMS_NAME):
        add_checksums(folder, [MACHINE_CODE_NAME])
    return file


def has_machine_code(dataset: Dataset) -> bool:
    """Return whether it was counted what is in the kernels of a dataset."""
    return dataset.file is not None and is_file(read_facts_folder(dataset) / MACHINE_CODE_NAME)


def load_machine_code(dataset: Dataset) -> dict[str, MachineCode]:
    """Return what was counted of the kernels of a dataset, by candidate id; not those that were not compiled.

    Raises:
        CostModelError: The dataset has no such file, or it cannot be read.
    """
    folder = read_facts_folder(dataset)
    file = folder / MACHINE_CODE_NAME
    if not has_machine_code(dataset):
        raise CostModelError(
            f"{folder} must have {MACHINE_CODE_NAME}, but has not. Count its kernels with "
            "experiments/compiled_stage/compile.py."
        )
    check_checksum(folder, MACHINE_CODE_NAME)
    with refusing(file, "a table of machine code", "Count its kernels again."):
        table = pq.read_table(file.absolute())
        values = np.column_stack([table[name].to_numpy() for name in MACHINE_CODE_FACTS])
        return {
            candidate: MachineCode(**dict(zip(MACHINE_CODE_FACTS, row, strict=True)))
            for candidate, row in zip(
                table["candidate_id"].to_pylist(), values.astype(np.float64).tolist(), strict=True
            )
        }
