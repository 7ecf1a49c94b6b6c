"""Files of any known kind to measurements; what kind a file is, its content says."""

import re
from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset.importers._document import read_document
from costmodel.dataset.importers._kernel_tuner import kernel_tuner_source
from costmodel.dataset.importers._metaschedule_db import (
    RECORDS_NAME,
    is_database,
    is_program_table,
    metaschedule_entries,
)
from costmodel.dataset.importers._platform_file import platform_file_for
from costmodel.dataset.importers._source import Source
from costmodel.dataset.importers._t4 import is_t4, t4_source
from costmodel.dataset.importers._table_file import PARQUET, table_entries
from costmodel.dataset.table import FILE_NAME, iter_measurements, unpacked
from costmodel.errors import CostModelError
from costmodel.records import Workload, read_records

_FIRST_KEY = re.compile(rb'\s*\{\s*"(\w+)"')


@dataclass(frozen=True)
class ReadOptions:
    """What files of other programs do not say.

    Attributes:
        platform: TOML file that says where they were measured; one that stands beside a file and is named as
            it, with ``.platform.toml`` behind, is that file's instead.
        columns: TOML file that says which column of a table is what.
        workloads: What was measured, for formats that do not name it.
    """

    platform: Path | None = None
    columns: Path | None = None
    workloads: tuple[Workload, ...] = ()


def read_source(path: Path, options: ReadOptions | None = None) -> Source:
    """Read a file, or the folder of a dataset or of a MetaSchedule database.

    Record stores are read without their lock. Cache files of Kernel Tuner, T4 files and CSV files may be
    gzipped.

    Raises:
        CostModelError: The file cannot be read, is damaged, or needs an option that is not given.
    """
    options = options or ReadOptions()
    if path.is_dir():
        path /= FILE_NAME if (path / FILE_NAME).is_file() else RECORDS_NAME
    with unpacked(path) as (file, packed):
        head = file.read(256)
    if is_program_table(head):
        return Source.of(path, ())
    if is_database(head):
        platform = platform_file_for(path, options.platform)
        return Source.of(path, metaschedule_entries(path, platform, options.workloads))
    first = _FIRST_KEY.match(head)
    if first and first[1] != b"crc32":
        return _read_document(path, options)
    if not first and (options.columns or head.startswith(PARQUET)):
        return _read_table(path, options)
    return _read_document(path, options) if packed else Source.of(path, read_records(path))


def _read_document(path: Path, options: ReadOptions) -> Source:
    document, closed = read_document(path)
    if is_t4(document):
        return t4_source(path, document, platform_file_for(path, options.platform), options.workloads)
    return kernel_tuner_source(path, document, closed)


def _read_table(path: Path, options: ReadOptions) -> Source:
    if options.columns is None:
        try:
            return Source.of(path, iter_measurements(path))
        except CostModelError as error:
            raise CostModelError(
                f"{error} A table of another program needs `--columns map.toml`, which says what its columns "
                "are; `costmodel dataset build --help` shows one."
            ) from None
    return Source.of(path, table_entries(path, options.columns, platform_file_for(path, options.platform)))
