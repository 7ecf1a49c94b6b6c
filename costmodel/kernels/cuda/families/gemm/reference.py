"""What the product should give, in double precision."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def reference(
    inputs: Mapping[str, NDArray[np.float32]], dims: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    """C ``(n, m)`` of A ``(k, m)`` and B ``(k, n)``."""
    a = inputs["agm"].reshape(dims["k"], dims["m"]).astype(np.float64)
    b = inputs["bgm"].reshape(dims["k"], dims["n"]).astype(np.float64)
    return {"cgm": b.T @ a}
