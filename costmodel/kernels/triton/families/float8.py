"""Numbers of eight bits, four of exponent (e4m3fn), which NumPy has not: kernels get their codes as bytes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

LARGEST = 448.0
_BIAS, _MANTISSA = 7, 3


@cache
def _magnitudes() -> NDArray[np.float64]:
    """Values of the codes 0 to 126, in order; 127 is no number."""
    exponent, mantissa = np.divmod(np.arange(127), 1 << _MANTISSA)
    fraction = mantissa / (1 << _MANTISSA)
    normal = (1 + fraction) * 2.0 ** (exponent - _BIAS)
    return np.where(exponent > 0, normal, fraction * 2.0 ** (1 - _BIAS))


def encode(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return the codes of the nearest numbers, of two the one whose last bit is 0; the largest where none is.

    Args:
        values: Of any shape.
    """
    known, size = _magnitudes(), np.abs(values)
    above = np.clip(np.searchsorted(known, size), 1, len(known) - 1)
    middle = (known[above - 1] + known[above]) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    signs: NDArray[np.uint8] = np.where(np.signbit(values), 0x80, 0).astype(np.uint8)
    sizes: NDArray[np.uint8] = np.where(up, above, above - 1).astype(np.uint8)
    return np.bitwise_or(signs, sizes)


def decode(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of codes, of which none is 127 or 255."""
    size = _magnitudes()[codes & 0x7F]
    values: NDArray[np.float32] = np.where(codes >= 0x80, -size, size).astype(np.float32)
    return values
