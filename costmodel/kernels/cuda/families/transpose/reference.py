"""What the transposition should give."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def reference(
    inputs: Mapping[str, NDArray[np.float32]], dims: Mapping[str, int]
) -> dict[str, NDArray[np.float32]]:
    """The output ``(n, m)`` of the input ``(m, n)``."""
    return {"output": inputs["input"].reshape(dims["m"], dims["n"]).T}
