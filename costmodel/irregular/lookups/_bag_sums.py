"""What comes of lookups, in double precision: sums of rows by bags, and gradients of rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.irregular.lookups._lookups import Lookups


def bag_sums(lookups: Lookups, table: NDArray[Any], weights: NDArray[Any]) -> FloatArray:
    """``(bags, width)``: the sum over the lookups of each bag of weight x row; 0 of an empty bag.

    Args:
        lookups: What is looked up.
        table: ``(rows, width)``.
        weights: ``(lookups,)``.
    """
    rows, matrix = _matrix(lookups, weights)
    return np.asarray(matrix @ table[rows].astype(np.float64))


def table_gradient(
    lookups: Lookups, gradient: NDArray[Any], weights: NDArray[Any]
) -> tuple[NDArray[Any], FloatArray]:
    """The rows that are looked up, each once, and ``(rows, width)`` the gradient of each.

    Args:
        lookups: What is looked up.
        gradient: ``(bags, width)`` of the sums.
        weights: ``(lookups,)``.
    """
    rows, matrix = _matrix(lookups, weights)
    return rows, np.asarray(matrix.T @ gradient.astype(np.float64))


def _matrix(lookups: Lookups, weights: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """The distinct rows, and the sparse ``(bags, distinct rows)`` matrix of the weights."""
    from scipy.sparse import csr_array

    rows, positions = np.unique(lookups.indices, return_inverse=True)
    shape = (len(lookups.lengths), len(rows))
    return rows, csr_array((weights.astype(np.float64), positions, lookups.offsets), shape=shape)
