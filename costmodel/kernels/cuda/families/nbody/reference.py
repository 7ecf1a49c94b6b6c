"""What the accelerations should be, in double precision."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_ROWS = 256  # bodies at a time, so that their distances to all others fit into memory
_SOFTENING = 0.01


def reference(
    inputs: Mapping[str, NDArray[np.float32]], dims: Mapping[str, int]
) -> dict[str, NDArray[np.float64]]:
    """The accelerations ``(n, 4)`` of the bodies ``(n, 4)``."""
    bodies = inputs["bodies"].reshape(dims["n"], 4).astype(np.float64)
    positions, masses = bodies[:, :3], bodies[:, 3]
    accelerations = np.zeros_like(bodies)
    for first in range(0, len(bodies), _ROWS):
        own = positions[first : first + _ROWS]
        distances = positions[None] - own[:, None]
        weights = masses / (np.square(distances).sum(axis=2) + _SOFTENING) ** 1.5
        accelerations[first : first + _ROWS, :3] = np.einsum("ij,ijk->ik", weights, distances)
    return {"accelerations": accelerations}
