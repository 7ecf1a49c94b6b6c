"""Where a dataset lies: a path, or the name of one that ships with the package."""

from pathlib import Path

from costmodel.dataset.table._schema import FILE_NAME, PARTS_NAME
from costmodel.errors import CostModelError, did_you_mean
from costmodel.files import shipped
from costmodel.reading import is_file, is_folder

# The first is used where none is named: small, of one GPU. The others are larger, or of other kernels.
SHIPPED_DATASETS = (
    "h100-sm-budgets",
    "sm-budgets",
    "cuda-sm-budgets",
    "triton-sm-budgets",
    "sparse-sm-budgets",
    "wide-sm-budgets",
)


def find_dataset(dataset: str | Path | None = None) -> Path:
    """Return the folder or parquet file of a dataset.

    Shipped datasets are in an installed package, and under ``datasets/`` of a source checkout. An existing
    path takes precedence over a shipped dataset of the same name.

    Args:
        dataset: A folder with ``measurements.parquet`` or with parts in ``measurements/``, a parquet file, or
            one of ``SHIPPED_DATASETS``. Default: the first of ``SHIPPED_DATASETS``.

    Raises:
        CostModelError: If no such dataset exists.
    """
    path = Path(SHIPPED_DATASETS[0] if dataset is None else dataset)
    if dataset is not None and (is_file(path) or is_dataset_folder(path)):
        return path
    if str(path) in SHIPPED_DATASETS:
        return _shipped(str(path))
    raise CostModelError(
        f"A dataset must be a folder with {FILE_NAME}, a parquet file, or the name of a shipped dataset "
        f"({', '.join(SHIPPED_DATASETS)}): {path / FILE_NAME if is_folder(path) else path} is not there."
        + did_you_mean(str(path), SHIPPED_DATASETS)
    )


def is_dataset_folder(path: Path) -> bool:
    """Whether a path is a folder with the measurements of a dataset."""
    return is_file(path / FILE_NAME) or is_folder(path / PARTS_NAME)


def _shipped(name: str) -> Path:
    place = shipped("datasets", name)
    if place is None:
        raise CostModelError(
            f"The dataset {name} must be installed, but is not. The larger datasets are in the distribution "
            "sm-costmodel-data: run `pip install ./datasets` in a clone of the repository. The others are "
            "part of the package: install it again."
        )
    return place
