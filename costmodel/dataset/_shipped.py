"""Where the dataset is that ships with the package."""

from pathlib import Path

from costmodel.dataset._schema import FILE_NAME
from costmodel.errors import CostModelError

_NAME = "h100-sm-budgets"


def shipped_dataset() -> Path:
    """Folder of the dataset that ships: kernels measured on 8 to 132 SMs of one GPU.

    It lies inside an installed package, and under ``datasets/`` of a source checkout.

    Raises:
        CostModelError: It is in neither place.
    """
    package = Path(__file__).parents[1]
    places = (package / "_datasets" / _NAME, package.parent / "datasets" / _NAME)
    for place in places:
        if (place / FILE_NAME).is_file():
            return place
    raise CostModelError(
        f"The dataset {_NAME} must lie in {places[0]} or {places[1]}, but is in neither: install the package "
        "again, or name a dataset."
    )
