"""Folds that keep what belongs together on one side."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds

Codes = NDArray[np.intp]


def group_codes(X: FloatArray, columns: tuple[int, ...], task_ids: TaskIds) -> Codes:
    """``(n,)`` number of each row's group: rows with equal values in these columns, NaN equal to NaN.

    Where the columns tell no two groups apart (there are none, or one workload only), tasks are the groups.
    """
    described = np.nan_to_num(X[:, list(columns)], nan=np.inf)
    distinct, codes = np.unique(described, axis=0, return_inverse=True)
    if len(distinct) < 2:
        _, codes = np.unique(task_ids, return_inverse=True)
    return np.asarray(codes.ravel(), dtype=np.intp)


def twin_codes(X: FloatArray, columns: tuple[int, ...], task_ids: TaskIds) -> Codes:
    """``(n,)`` as ``group_codes``, with rows in one group that have the same values in other columns.

    Families that compute on the same data have columns of their own for its sizes, NaN in rows of the others:
    a sum of looked-up rows and its gradient, a layer in two types. Whoever has measured one knows the other.
    """
    described = X[:, list(columns)]
    known_first = np.argsort(np.isnan(described), axis=1, kind="stable")
    aligned = np.take_along_axis(described, known_first, axis=1)
    return group_codes(aligned, tuple(range(aligned.shape[1])), task_ids)


def group_folds(groups: Codes, folds: int, seed: int) -> Codes:
    """``(n,)`` fold of each row, in 0 ... folds - 1; whole groups are dealt out at random, evenly.

    Raises:
        ValueError: ``folds < 2``, or there are fewer than two groups.
    """
    distinct, codes = np.unique(groups, return_inverse=True)
    if folds < 2 or len(distinct) < 2:
        raise ValueError(f"folds and groups must be at least 2, but got {folds} and {len(distinct)}")
    dealt = np.random.default_rng(seed).permutation(len(distinct)) % min(folds, len(distinct))
    return np.asarray(dealt[codes], dtype=np.intp)
