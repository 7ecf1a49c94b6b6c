"""Columns of lists, such as the repeats of each measurement, without an object a row."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def lengths_of(lists: Any) -> Counts:
    """``(n,)`` how many values each list of a column has."""
    return np.asarray(pc.list_value_length(lists), dtype=np.int64)


def reduced(lists: Any, reduce: Callable[[Floats], Floats], empty: float = np.nan) -> Floats:
    """``(n,)`` what a reduction of the rows of an array, such as their median, makes of each list.

    Args:
        lists: Column of lists of numbers.
        reduce: Reduction of a ``(k, length)`` array to ``(k,)``.
        empty: What stands for an empty list.
    """
    found = np.full(len(lists), empty)
    for rows, values in _of_one_length(lists):
        found[rows] = reduce(values)
    return found


def medians(lists: Any) -> Floats:
    """``(n,)`` median of each list, inf where it is empty."""
    return reduced(lists, lambda values: np.median(values, axis=1), np.inf)


def _of_one_length(lists: Any) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Rows whose lists have the same number of values, at least one, and their ``(k, length)`` values."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    lengths = lengths_of(lists)
    values, ends = np.asarray(lists.flatten(), dtype=np.float64), np.cumsum(lengths)
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        yield rows, values[(ends[rows] - length)[:, None] + np.arange(length)]
