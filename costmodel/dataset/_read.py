"""Files of any known kind to measurements; what kind a file is, its content says."""

from pathlib import Path

from costmodel.dataset._kernel_tuner import is_kernel_tuner_cache, read_kernel_tuner_cache
from costmodel.dataset._parquet import load_dataset
from costmodel.dataset._source import Source
from costmodel.errors import CostModelError
from costmodel.records import read_records

_PARQUET = b"PAR1"


def read_source(path: Path) -> Source:
    """Read a record store, without its lock, a cache file of Kernel Tuner, or a dataset.

    Raises:
        CostModelError: The file cannot be read or is damaged.
    """
    head = b"" if path.is_dir() else _head(path)
    if path.is_dir() or head.startswith(_PARQUET):
        return Source(path, load_dataset(path).to_measurements())
    if is_kernel_tuner_cache(head):
        return read_kernel_tuner_cache(path)
    return Source(path, list(read_records(path)))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(256)
    except OSError as error:
        raise CostModelError(f"Cannot read {path}: {error.strerror}.") from error
