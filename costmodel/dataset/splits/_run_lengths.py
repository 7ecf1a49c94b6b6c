"""Sets of rows as run lengths: rows left out, rows taken, rows left out, and so on."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def run_lengths(taken: Mask) -> list[int]:
    """Lengths of the runs of an ``(n,)`` mask, beginning with what is not taken, up to the last that is.

    Example:
        >>> run_lengths(np.array([False, False, True, True, True, False, True]))
        [2, 3, 1, 1]
    """
    edges = np.flatnonzero(np.diff(taken, prepend=False, append=False))
    lengths: list[int] = np.diff(edges, prepend=0).tolist()
    return lengths


def taken_by(runs: Sequence[int], n: int) -> Mask:
    """The ``(n,)`` mask that has these runs, the inverse of ``run_lengths``.

    Raises:
        ValueError: They are no runs of so many rows.
    """
    if min(runs, default=0) < 0 or sum(runs) > n:
        raise ValueError(f"runs must be at least 0 and sum to at most {n}, but got {sum(runs)}")
    taken = np.zeros(n, dtype=np.bool_)
    taken[: sum(runs)] = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return taken
