"""A pruned layer, dense and compressed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.balanced import Pattern, random_layer


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Weights that are kept of a block of a row, and of a row."""
    pattern = Pattern.of_dims(dims)
    return {"kept": pattern.kept, "row": pattern.kept_of_row(dims["k"])}


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The weights ``(n, k)`` with their zeros, and compressed."""
    layer = random_layer(dims["n"], dims["k"], Pattern.of_dims(dims), np.float32, rng)
    return {"W": layer.unpack(), "values": layer.values, "indices": layer.indices}
