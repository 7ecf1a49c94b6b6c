"""Where the dataset is that ships with the package."""

from pathlib import Path

from costmodel.dataset.table._schema import FILE_NAME
from costmodel.errors import CostModelError


def shipped_dataset(name: str = "h100-sm-budgets") -> Path:
    """Folder of a dataset that ships: kernels measured on 8 to 132 SMs of a GPU.

    It lies inside an installed package, and under ``datasets/`` of a source checkout.

    Args:
        name: ``h100-sm-budgets``, small and of one GPU, or ``sm-budgets``, ten times as large and of two.

    Raises:
        CostModelError: It is in neither place.
    """
    package = Path(__file__).parents[2]
    places = (package / "_datasets" / name, package.parent / "datasets" / name)
    for place in places:
        if (place / FILE_NAME).is_file():
            return place
    raise CostModelError(
        f"The dataset {name} must lie in {places[0]} or {places[1]}, but is in neither: install the package "
        "again, or name a dataset that ships (h100-sm-budgets, sm-budgets)."
    )
