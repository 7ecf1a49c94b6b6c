"""What the sums should be, in double precision."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def reference(
    inputs: Mapping[str, NDArray[np.float32]], dims: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    """The sums ``(m,)`` of the rows of the values ``(m, n)``."""
    return {"sums": inputs["values"].reshape(dims["m"], dims["n"]).sum(axis=1, dtype=np.float64)}
