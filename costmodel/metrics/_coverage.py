"""How well intervals keep what they promise, and how much they say."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def coverage_score(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> float:
    """Share of the configs that ran whose latency lies within its interval, ends included; NaN if none ran.

    Best is what the intervals promise: 0.9 for those of 90 %. More means that they are wider than they need
    to be.

    Args:
        low_s: ``(n,)`` lower ends in seconds.
        high_s: ``(n,)`` upper ends in seconds.
        latency_s: ``(n,)`` measured seconds; inf for a config that failed.

    Raises:
        ValueError: The shapes differ.
    """
    ran = _ran(low_s, high_s, latency_s)
    inside = (low_s[ran] <= latency_s[ran]) & (latency_s[ran] <= high_s[ran])
    return float(inside.mean()) if inside.size else float("nan")


def log_width_error(low_s: FloatArray, high_s: FloatArray) -> float:
    """Mean of ``log(high / low)``, at least 0 and lower is better; NaN for no intervals.

    Of two with the same coverage the narrower intervals say more.

    Raises:
        ValueError: The shapes differ.
    """
    _ran(low_s, high_s, high_s)
    return float(np.log(high_s / low_s).mean()) if low_s.size else float("nan")


def _ran(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> NDArray[np.bool_]:
    if not low_s.shape == high_s.shape == latency_s.shape:
        raise ValueError(
            "low_s, high_s and latency_s must have one shape (n,), "
            f"but got {low_s.shape}, {high_s.shape} and {latency_s.shape}"
        )
    return np.isfinite(latency_s)
