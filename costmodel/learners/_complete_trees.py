"""Boosted trees that a file holds, walked in NumPy alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def walk_trees(
    X: NDArray[Any], splits: NDArray[Any], thresholds: NDArray[Any], leaves: NDArray[Any]
) -> FloatArray:
    """Return the sum of each row's leaves, ``(n,)``.

    A tree is complete: node i has the children 2i + 1, where the column is below the threshold, and 2i + 2.

    Args:
        X: ``(n, c)``.
        splits: ``(t, 2**depth - 1)`` position of the column that a node looks at.
        thresholds: Value that it compares with, likewise.
        leaves: ``(t, 2**depth)``.
    """
    trees, nodes = splits.shape
    each, row = np.arange(trees), np.arange(len(X))[:, None]
    node = np.zeros((len(X), trees), np.intp)
    while node.size and node[0, 0] < nodes:
        at_or_above = X[row, splits[each, node]] >= thresholds[each, node]
        node = 2 * node + 1 + at_or_above
    found: FloatArray = leaves[each, node - nodes].sum(axis=1, dtype=np.float64)
    return found
