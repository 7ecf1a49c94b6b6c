"""Read files of any known format: what a file looks like decides who reads it."""

from collections.abc import Mapping
from pathlib import Path

from costmodel.arguments import check_path
from costmodel.dataset.importers._aiconfigurator import is_call_table, read_call_table
from costmodel.dataset.importers._auto_scheduler import read_auto_scheduler
from costmodel.dataset.importers._autotvm import read_autotvm
from costmodel.dataset.importers._cutlass import read_cutlass
from costmodel.dataset.importers._kernel_tuner import read_kernel_tuner
from costmodel.dataset.importers._ktt import read_ktt
from costmodel.dataset.importers._metaschedule import RECORDS_NAME, read_metaschedule, read_programs
from costmodel.dataset.importers._ncu import read_ncu
from costmodel.dataset.importers._nvbench import read_nvbench, read_nvbench_table
from costmodel.dataset.importers._t4 import read_t4
from costmodel.dataset.importers._table import read_table
from costmodel.dataset.importers._triton import read_moe, read_triton_autotune
from costmodel.dataset.importers._tunable_op import read_tunable_op
from costmodel.dataset.importers._tuned_database import read_tuned_database
from costmodel.dataset.sources._base import InputFile, Reader, ReadOptions
from costmodel.dataset.sources._source import FileContents
from costmodel.dataset.table._files import DataFiles, is_dataset_folder
from costmodel.dataset.table._read import iter_records
from costmodel.errors import CostModelError
from costmodel.formats import FORMATS
from costmodel.reading import is_file, is_folder
from costmodel.records._store import read_records


def read_dataset(file: InputFile, _: ReadOptions) -> FileContents:
    """Read a dataset.

    Raises:
        CostModelError: It is another table in Parquet.
    """
    try:
        return FileContents.of(file.path, iter_records(file.path))
    except CostModelError as error:
        raise CostModelError(
            f"{error} A table of another program needs `--columns map.toml`, which maps its columns; "
            "`costmodel dataset build --help` shows an example."
        ) from None


def read_store(file: InputFile, _: ReadOptions) -> FileContents:
    """Read a record store, without its lock."""
    return FileContents.of(file.path, read_records(file.path))


# By key of a format in ``costmodel.formats``.
READERS: Mapping[str, Reader] = {
    "auto-scheduler-log": read_auto_scheduler,
    "autotvm-log": read_autotvm,
    "csv": read_table,
    "cutlass-profiler": read_cutlass,
    "kernel-tuner-cache": read_kernel_tuner,
    "ktt": read_ktt,
    "metaschedule": read_metaschedule,
    "metaschedule-programs": read_programs,
    "moe-configs": read_moe,
    "ncu": read_ncu,
    "nvbench": read_nvbench,
    "nvbench-table": read_nvbench_table,
    "parquet": read_dataset,
    "record-store": read_store,
    "tvm-database": read_tuned_database,
    "t4": read_t4,
    "triton-autotune": read_triton_autotune,
    "tunableop": read_tunable_op,
}


def is_dataset(path: Path, options: ReadOptions | None = None) -> bool:
    """Tell whether a path is the folder or the file of a dataset, and no file that is yet to become one."""
    return (
        is_dataset_folder(path)
        or _find_reader(InputFile.open(path), options or ReadOptions()) is read_dataset
    )


def read_source(path: Path, options: ReadOptions | None = None) -> FileContents:
    """Read a file, or the folder of a dataset or of a MetaSchedule database.

    Record stores are read without their lock. Files of other programs may be gzipped.

    Raises:
        CostModelError: The file cannot be read, is damaged, of no known format, or needs an option that is
            not given.
    """
    options, path = options or ReadOptions(), check_path("file", path)
    if is_dataset_folder(path):
        files = DataFiles.of(path)
        if files.partition is not None:
            return FileContents.of(path, iter_records(path))
        path = files.path
    elif is_folder(path):
        path = _database_of(path)
    file = InputFile.open(path)
    return _find_reader(file, options)(file, options)


def _find_reader(file: InputFile, options: ReadOptions) -> Reader:
    """Find the reader of a file.

    Raises:
        CostModelError: There is none.
    """
    if options.columns is not None and not file.is_json:
        return read_table
    if file.look is not None and file.look.key == "parquet" and is_call_table(file.path):
        return read_call_table
    if not file.head.strip():  # a store that nothing was written into yet
        return read_store
    if file.look is not None and file.look.key in READERS:
        return READERS[file.look.key]
    readable = ", ".join(sorted(each.name for each in FORMATS if each.key in READERS))
    if file.look is None:
        raise CostModelError(
            f"{file.path} must be a file of measurements, but it looks like none of these: {readable}. If it "
            "is a table, give `--columns map.toml`, which maps its columns."
        )
    use = file.look.use.replace("FILE", str(file.path)) or (
        "Convert its rows to a table with `pandas.read_json(...).to_csv(..., index=False)`, and give "
        "`--columns map.toml`."
    )
    raise CostModelError(
        f"{file.path} must be a file of measurements, but it looks like {file.look.name}. {use}"
    )


def _database_of(folder: Path) -> Path:
    """Return the records of the MetaSchedule database in a folder.

    Raises:
        CostModelError: There are none.
    """
    if not is_file(folder / RECORDS_NAME):
        raise CostModelError(
            f"A folder must contain a dataset or a MetaSchedule database, but {folder} has neither "
            f"measurements.parquet nor {RECORDS_NAME}. Name its files, as in {folder}/*.csv."
        )
    return folder / RECORDS_NAME
