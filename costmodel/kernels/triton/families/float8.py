"""Numbers of eight bits, four of exponent (e4m3fn), which NumPy has not: kernels get their codes as bytes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

_BIAS, _MANTISSA = 7, 3
_BELOW_TWO = 0xBF  # without the highest bit of the exponent


@cache
def _numbers() -> NDArray[np.float32]:
    """The number of each code; of 127 and 255, which are none, infinity."""
    exponent, mantissa = np.divmod(np.arange(128), 1 << _MANTISSA)
    fraction = mantissa / (1 << _MANTISSA)
    normal = (1 + fraction) * 2.0 ** (exponent - _BIAS)
    size = np.where(exponent > 0, normal, fraction * 2.0 ** (1 - _BIAS))
    size[-1] = np.inf
    return np.concatenate([size, -size]).astype(np.float32)


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Draw codes of numbers below 2 in size, each alike; the mean of their squares is 0.37."""
    codes: NDArray[np.uint8] = rng.integers(0, 256, shape, np.uint8)
    return np.bitwise_and(codes, np.uint8(_BELOW_TWO))


def decode(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of codes."""
    return _numbers()[codes]
