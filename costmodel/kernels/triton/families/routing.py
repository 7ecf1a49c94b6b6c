"""What families of mixtures of experts share: which token goes where, and the product by NumPy."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The most tiles that the assignments of each expert can make.
TILES_M = "((t * k + min(e, t * k) * (BLOCK_M - 1)) // BLOCK_M)"


def draw(dims: Mapping[str, int], rng: np.random.Generator) -> dict[str, NDArray[np.int32]]:
    """Draw k different experts for each of t tokens, the i-th most popular as often as i^(-s / 100).

    The k largest sums of log-popularity and Gumbel noise are k draws without replacement (arXiv:1903.06059).

    Returns:
        ``order``: assignments sorted by expert; ``first``: where those of each begin, and the end.
    """
    popularity = -dims["s"] / 100 * np.log(1 + rng.permutation(dims["e"]))
    scores = popularity + rng.gumbel(size=(dims["t"], dims["e"]))
    expert_of = np.argsort(-scores, axis=1)[:, : dims["k"]].ravel()
    first = np.searchsorted(np.sort(expert_of), np.arange(dims["e"] + 1))
    return {"order": np.argsort(expert_of, kind="stable").astype(np.int32), "first": first.astype(np.int32)}


def multiply(
    x: NDArray[Any],
    weights: Callable[[int], NDArray[Any]],
    arrays: Mapping[str, NDArray[Any]],
    dims: Mapping[str, int],
) -> NDArray[Any]:
    """Return the product of each assignment, ``(t * k, n)``.

    Args:
        x: Tokens, ``(t, d)``.
        weights: Of an expert, ``(n, d)``.
        arrays: With ``order`` and ``first``.
        dims: The sizes.
    """
    y = np.empty((dims["t"] * dims["k"], dims["n"]), np.float32)
    for expert in range(dims["e"]):
        assignments = arrays["order"][arrays["first"][expert] : arrays["first"][expert + 1]]
        if len(assignments):
            y[assignments] = x[assignments // dims["k"]] @ weights(expert).T
    return y
