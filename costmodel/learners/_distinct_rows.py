"""Rows that repeat."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def distinct_rows(X: FloatArray | NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the first of each distinct row, ``(u,)``, and which of them each row equals, ``(n,)``.

    NaN equals NaN and -0.0 equals 0.0. The order of the distinct rows is fixed by their content, not by where
    they stand; it is none that means anything. Without columns all rows are one.
    """
    bits = _bits(X)
    # The fewer there are to compare, the sooner rows are in order.
    rows = np.ascontiguousarray(bits[:, (bits != bits[:1]).any(axis=0)])
    if not rows.shape[1]:
        return np.zeros(min(1, len(X)), dtype=np.intp), np.zeros(len(X), dtype=np.intp)
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, row = np.unique(keys, return_index=True, return_inverse=True)
    return first, row


def row_keys(X: FloatArray) -> list[bytes]:
    """A key of each row, by which it is found again in other arrays; equal as of ``distinct_rows``."""
    return [row.tobytes() for row in _bits(X)]


def _bits(X: FloatArray | NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
    bits = np.ascontiguousarray(X + X.dtype.type(0))  # makes -0.0 and 0.0 the same bits
    bits[np.isnan(bits)] = np.nan  # of which there are many
    return bits.view(f"u{bits.itemsize}")
