"""Caches of sequences in pages, as kernels of decode attention take them: lengths, and the pages of each."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def draw(
    dims: Mapping[str, int], rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Draw contexts of b sequences in pages of p tokens; the i-th longest has c i^(-s / 100) tokens.

    Returns:
        ``(b, ceil(c / p))`` pages of each sequence in order, from anywhere in the cache; ``(b,)`` its tokens;
        and how many pages there are.
    """
    ranks = 1 + rng.permutation(dims["b"])
    lengths = np.maximum(np.rint(dims["c"] * ranks ** (-dims["s"] / 100)), 1).astype(np.int32)
    pages = -(-lengths // dims["p"])
    table = np.zeros((dims["b"], -(-dims["c"] // dims["p"])), np.int32)
    places = rng.permutation(int(pages.sum()))
    for row, count, first in zip(table, pages, np.cumsum(pages) - pages, strict=True):
        row[:count] = places[first : first + count]
    return table, lengths, len(places)


def gather(cache: NDArray[np.generic], table: NDArray[np.int32], length: int) -> NDArray[np.float64]:
    """Return the tokens of a sequence, ``(length, ...)``.

    Args:
        cache: ``(pages, p, ...)``.
        table: Its pages.
        length: Its tokens.
    """
    used = -(-length // cache.shape[1])
    return np.concatenate(cache[table[:used]])[:length].astype(np.float64)
