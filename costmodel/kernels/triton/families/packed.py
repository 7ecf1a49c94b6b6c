"""Weights of few bits in words of 32, and scales of groups, as kernels take them and as numbers.

A word has the weights of consecutive k of one column, the first in its lowest bits. What is stored of a
weight is the weight over its scale, plus half of the range.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 32


def draw(
    rng: np.random.Generator, bits: int, shape: tuple[int, ...], scaled: int
) -> tuple[NDArray[np.int32], NDArray[np.float16]]:
    """Draw words and scales of weights whose products with normal numbers are of about 1.

    Args:
        rng: Where draws come from.
        bits: Of a weight.
        shape: Of the weights, ``(..., k, n)``; a word has as many k as it has room for.
        scaled: k that share a scale.
    """
    *outer, depth, columns = shape
    words = rng.integers(0, 1 << WORD_BITS, (*outer, depth * bits // WORD_BITS, columns), np.uint32)
    scales = rng.uniform(0.5, 1.5, (*outer, -(-depth // scaled), columns))
    return words.view(np.int32), (scales / (2 ** (bits - 1) * depth**0.5)).astype(np.float16)


def unpack(words: NDArray[Any], scales: NDArray[Any], bits: int, scaled: int) -> NDArray[np.float32]:
    """Return the weights of a matrix, ``(k, n)``."""
    in_word, (rows, columns) = WORD_BITS // bits, words.shape
    weights = np.empty((rows * in_word, columns), np.float32)
    for place in range(in_word):
        stored = words.view(np.uint32) >> np.uint32(place * bits) & np.uint32((1 << bits) - 1)
        weights[place::in_word] = stored.astype(np.float32) - (1 << (bits - 1))
    return weights * np.repeat(scales.astype(np.float32), scaled, axis=0)[: len(weights)]
