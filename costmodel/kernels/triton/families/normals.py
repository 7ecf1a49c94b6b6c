"""Normal numbers in float16, hundreds of millions in less than a second."""

import math

import numpy as np
from numpy.typing import NDArray

_DRAWN = 1_000_003  # a prime, so that rows, pages and experts begin at places of their own


def draw(rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> NDArray[np.float16]:
    """Draw normal numbers; beyond a million the same ones come again."""
    drawn = rng.standard_normal(min(math.prod(shape), _DRAWN), np.float32) * np.float32(scale)
    return np.resize(drawn.astype(np.float16), shape)
