"""What the layer should give: the product with the dense weights, in double precision."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def reference(inputs: Mapping[str, NDArray[Any]], dims: Mapping[str, int]) -> dict[str, NDArray[np.float64]]:
    """The output ``(m, n)`` of inputs ``(m, k)`` and weights ``(n, k)``."""
    x = inputs["x"].reshape(dims["m"], dims["k"]).astype(np.float64)
    weights = inputs["W"].reshape(dims["n"], dims["k"]).astype(np.float64)
    return {"y": x @ weights.T}
