"""A pruned layer, dense and compressed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.balanced import BalancedMatrix, Pattern, random_layer, two_of_four_metadata


def facts(dims: Mapping[str, int]) -> dict[str, float]:
    """Weights that are kept of a block of a row, and of a row; words that sparse Tensor Cores need.

    Where these cannot run it there is one word, which nobody reads.
    """
    pattern = Pattern.of_dims(dims)
    words = dims["n"] * dims["k"] // 32 if _is_for_sparse_tensor_cores(pattern, dims) else 1
    return {"kept": pattern.kept, "row": pattern.kept_of_row(dims["k"]), "words": words}


def arrays(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """The weights ``(n, k)`` with their zeros, and compressed."""
    layer = random_layer(dims["n"], dims["k"], Pattern.of_dims(dims), np.float16, rng)
    return {
        "W": layer.unpack(),
        "values": layer.values,
        "indices": layer.indices,
        "metadata": _metadata(layer, dims),
    }


def _metadata(layer: BalancedMatrix, dims: Mapping[str, int]) -> NDArray[np.uint32]:
    if _is_for_sparse_tensor_cores(layer.pattern, dims):
        return two_of_four_metadata(layer)
    return np.zeros(1, np.uint32)


def _is_for_sparse_tensor_cores(pattern: Pattern, dims: Mapping[str, int]) -> bool:
    return pattern.is_two_of_four and dims["n"] % 16 == 0 and dims["k"] % 32 == 0
