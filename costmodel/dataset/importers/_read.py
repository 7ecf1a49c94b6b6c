"""Read files of any known format; the content of a file determines its format.

A format is one ``Format`` in a module of this package, and one entry of ``FORMATS``.
"""

from pathlib import Path

from costmodel.dataset.importers._auto_scheduler import AUTO_SCHEDULER
from costmodel.dataset.importers._autotvm import AUTOTVM
from costmodel.dataset.importers._base import Format, InputFile, ReadOptions
from costmodel.dataset.importers._cutlass import CUTLASS
from costmodel.dataset.importers._ktt import KTT
from costmodel.dataset.importers._ncu import NCU
from costmodel.dataset.importers._nvbench import NVBENCH_CSV, NVBENCH_JSON
from costmodel.dataset.importers._own import DATASET, RECORD_STORE
from costmodel.dataset.importers._source import Source
from costmodel.dataset.importers._triton_autotune import TRITON_AUTOTUNE
from costmodel.dataset.importers._tunable_op import TUNABLE_OP
from costmodel.dataset.importers.kernel_tuner._cache import KERNEL_TUNER
from costmodel.dataset.importers.metaschedule._database import METASCHEDULE, PROGRAM_TABLE, RECORDS_NAME
from costmodel.dataset.importers.t4._file import T4
from costmodel.dataset.importers.tables._file import TABLE
from costmodel.dataset.table._files import DataFiles
from costmodel.dataset.table._locate import is_dataset_folder
from costmodel.dataset.table._read import iter_records
from costmodel.errors import CostModelError

# The first that recognises a file reads it.
FORMATS: tuple[Format, ...] = (
    *(PROGRAM_TABLE, METASCHEDULE, AUTO_SCHEDULER, AUTOTVM),
    *(TUNABLE_OP, NCU, CUTLASS, NVBENCH_CSV),
    *(TRITON_AUTOTUNE, KTT, NVBENCH_JSON, T4),
    *(DATASET, TABLE, KERNEL_TUNER, RECORD_STORE),
)


def is_dataset(path: Path, options: ReadOptions | None = None) -> bool:
    """Whether a path is the folder or the file of a dataset, and no file that is yet to become one."""
    return is_dataset_folder(path) or DATASET.recognises(InputFile.open(path), options or ReadOptions())


def read_source(path: Path, options: ReadOptions | None = None) -> Source:
    """Read a file, or the folder of a dataset or of a MetaSchedule database.

    Record stores are read without their lock. Files of other programs may be gzipped.

    Raises:
        CostModelError: The file cannot be read, is damaged, of no known format, or needs an option that is
            not given.
    """
    options = options or ReadOptions()
    if is_dataset_folder(path):
        files = DataFiles.of(path)
        if files.partition is not None:
            return Source.of(path, iter_records(path))
        path = files.path
    elif path.is_dir():
        path = _database_of(path)
    file = InputFile.open(path)
    for each in FORMATS:
        if each.recognises(file, options):
            return each.read(file, options)
    raise CostModelError(
        f"{path} must be a file of one of these formats, gzipped or not: "
        f"{', '.join(each.name for each in FORMATS)}. Its first bytes match none of them. Convert JSON rows "
        "to a table with `pandas.read_json(...).to_csv(..., index=False)`."
    )


def _database_of(folder: Path) -> Path:
    """The records of the MetaSchedule database in a folder.

    Raises:
        CostModelError: There are none.
    """
    if not (folder / RECORDS_NAME).is_file():
        raise CostModelError(
            f"A folder must contain a dataset or a MetaSchedule database, but {folder} has neither "
            f"measurements.parquet nor {RECORDS_NAME}. Name its files, as in {folder}/*.csv."
        )
    return folder / RECORDS_NAME
