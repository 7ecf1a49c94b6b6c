"""Layers to measure kernels with."""

from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from costmodel.irregular.balanced._matrix import BalancedMatrix, pack
from costmodel.irregular.balanced._pattern import Pattern
from costmodel.irregular.balanced._prune import prune


def random_layer(
    outputs: int, inputs: int, pattern: Pattern, dtype: DTypeLike, rng: np.random.Generator
) -> BalancedMatrix:
    """Normal weights ``(outputs, inputs)``, pruned, for results of order 1 from normal inputs."""
    weights = rng.standard_normal((outputs, inputs), dtype=np.float32)
    weights *= np.float32(pattern.kept_of_row(inputs) ** -0.5)
    pruned = prune(weights, pattern.sparsity, pattern.block, vector=pattern.vector, group=pattern.group)
    matrix = pack(pruned, pattern)
    return replace(matrix, values=matrix.values.astype(dtype))
