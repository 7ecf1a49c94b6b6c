"""Who of two proposers measures when."""

import numpy as np
from numpy.typing import NDArray


def transfer_turns(n: int, allowed: float) -> NDArray[np.bool_]:
    """``(n,)`` whether each measurement of a search is the transfer model's choice.

    As many are, and as early, as leave the fallback's k-th choice at or before measurement ``allowed * k``,
    for each k.

    Args:
        n: Measurements.
        allowed: Most measurements relative to the fallback's own.
    """
    own = np.arange(1, n + 1)
    # The small number lets a quarter of four be one.
    at = own - 1 + np.floor((allowed - 1.0) * own + 1e-9).astype(int)
    transferred = np.ones(n, dtype=np.bool_)
    transferred[at[at < n]] = False
    return transferred
