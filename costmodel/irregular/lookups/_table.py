"""Tables in memory: what rows take, and what they are filled with."""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from costmodel.irregular.lookups._histogram import Histogram

_SECTOR_BYTES = 32  # what device memory moves at least
_FLOAT_BYTES = 4
_CACHE_BYTES = 50_000_000  # the L2 cache of an H100 and of an H200
_PERIOD = 16_777_213  # a prime: rows begin at different places of the drawn numbers


def row_bytes(width: int) -> float:
    """Mean bytes of the sectors that a row of so many float32 numbers lies in."""
    length = _FLOAT_BYTES * width
    return float(length + _SECTOR_BYTES - gcd(length, _SECTOR_BYTES))


def missed_rows(histogram: Histogram, lookups: int, width: int) -> float:
    """Expected number of lookups whose row comes from device memory: it is not in an L2 cache of 50 MB."""
    return histogram.misses(lookups, _CACHE_BYTES / row_bytes(width))


def random_table(rows: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """``(rows * width,)`` normal numbers, which repeat after millions: drawing them all takes long."""
    drawn = rng.standard_normal(min(rows * width, _PERIOD), dtype=np.float32)
    return np.resize(drawn, rows * width)
