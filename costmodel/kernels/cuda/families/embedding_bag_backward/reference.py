"""What the gradient should be, in double precision."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.lookups import Lookups, table_gradient


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.float32]]:
    """The gradient ``(r, d)`` of the table, by that of the bags ``(b, d)``."""
    offsets = np.searchsorted(inputs["bags"], np.arange(dims["b"] + 1))
    lookups = Lookups(dims["r"], inputs["indices"], offsets)
    of_bags = inputs["of_bags"].reshape(dims["b"], dims["d"])
    rows, of_rows = table_gradient(lookups, of_bags, inputs["weights"])
    gradient = inputs["gradient"].reshape(dims["r"], dims["d"]).copy()
    gradient[rows] += of_rows
    return {"gradient": gradient}
