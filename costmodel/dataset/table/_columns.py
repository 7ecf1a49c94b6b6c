"""Columns of Arrow, whole at a time: lengths and medians of lists, equality, numbers for distinct values."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def lengths_of(lists: Any) -> Counts:
    """Return ``(n,)`` how many values each list of a column has."""
    return np.asarray(pc.list_value_length(lists), dtype=np.int64)


def reduce_lists(lists: Any, reduce: Callable[[Floats], Floats], empty: float = np.nan) -> Floats:
    """Return ``(n,)`` what a reduction of the rows of an array, such as their median, makes of each list.

    Args:
        lists: Column of lists of numbers.
        reduce: Reduction of a ``(k, length)`` array to ``(k,)``.
        empty: What stands for an empty list.
    """
    found = np.full(len(lists), empty)
    for rows, values in _of_one_length(lists):
        found[rows] = reduce(values)
    return found


def reduce_to_medians(lists: Any) -> Floats:
    """Return ``(n,)`` median of each list, inf where it is empty."""
    return reduce_lists(lists, lambda values: np.median(values, axis=1), np.inf)


def _of_one_length(lists: Any) -> Iterator[tuple[NDArray[np.intp], Floats]]:
    """Rows whose lists have the same number of values, at least one, and their ``(k, length)`` values."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    lengths = lengths_of(lists)
    values, ends = np.asarray(lists.flatten(), dtype=np.float64), np.cumsum(lengths)
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        yield rows, values[(ends[rows] - length)[:, None] + np.arange(length)]


Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


def compare_columns(first: Any, second: Any) -> Mask:
    """``(n,)`` whether two columns of one type agree in each row; structs and lists in all that they hold.

    NaN agrees with nothing.
    """
    first, second = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in (first, second))
    if pa.types.is_dictionary(first.type) and first.dictionary.equals(second.dictionary):
        first, second = first.indices, second.indices
    if pa.types.is_struct(first.type):
        return _all(len(first), map(compare_columns, first.flatten(), second.flatten()))
    if pa.types.is_list(first.type):
        return _same_lists(first, second)
    agree: Mask = np.asarray(pc.fill_null(pc.equal(first, second), False))
    return agree


def _same_lists(first: Any, second: Any) -> Mask:
    lengths = lengths_of(first)
    agree: Mask = lengths == lengths_of(second)
    items = compare_columns(*(lists.filter(pa.array(agree)).flatten() for lists in (first, second)))
    row_of = np.repeat(np.flatnonzero(agree), lengths[agree])
    agree[row_of[~items]] = False
    return agree


def _all(n: int, masks: Iterable[Mask]) -> Mask:
    """Return ``(n,)`` where all of the masks are."""
    agree: Mask = np.logical_and.reduce([np.ones(n, dtype=np.bool_), *masks])
    return agree


def find_distinct(table: Any, keys: Sequence[str]) -> tuple[Codes, Codes]:
    """Return rows that differ in any column.

    Args:
        table: A ``pyarrow.Table`` of n rows.
        keys: Columns, texts or numbers, that tell most of them apart.

    Returns:
        First row of each of the d distinct ones, and ``(n,)`` each row's place among these, from 0 to d - 1,
        in the order in which they appear.
    """
    codes = number_combinations([codes_of(table[name]) for name in keys])
    if not len(codes):
        return codes, codes
    # A row that has the keys of another, and differs elsewhere, is told apart by all that it says.
    first = np.unique(codes, return_index=True)[1]
    others = np.flatnonzero(~compare_rows(table, table.take(first[codes])))
    if others.size:
        texts, _ = pd.factorize(np.array([str(row) for row in table.take(others).to_pylist()], dtype=object))
        codes[others] = codes.max() + 1 + texts
        codes = number_combinations([codes])
        first = np.unique(codes, return_index=True)[1]
    return first, codes


def compare_rows(first: Any, second: Any) -> Mask:
    """Return ``(n,)`` whether the rows of two tables of the same columns agree."""
    return _all(len(first), (compare_columns(first[name], second[name]) for name in first.column_names))


def codes_of(column: Any) -> Codes:
    """Return ``(n,)`` a number for each distinct value, in order of appearance."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return np.asarray(column.indices, dtype=np.int64)


def number_combinations(codes: Sequence[Codes]) -> Codes:
    """Return ``(n,)`` a number for each distinct combination of codes, in order of appearance."""
    joint = codes[0]
    for more in codes[1:]:
        joint = pd.factorize(joint * (more.max(initial=0) + 1) + more)[0]
    return pd.factorize(joint)[0].astype(np.int64)
