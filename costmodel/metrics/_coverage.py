"""How often what was measured lies in the interval that was predicted for it, and how wide that is.

Both together say something: an interval from 0 to infinity covers everything.
"""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def covered(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> NDArray[np.bool_]:
    """``(n,)`` whether ``low <= latency <= high``; False for a config that failed and where an end is NaN."""
    return np.asarray((low_s <= latency_s) & (latency_s <= high_s) & np.isfinite(latency_s))


def coverage_score(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> float:
    """Share of the configs that ran whose latency lies within its interval; NaN if none ran.

    An interval of level 0.9 is calibrated where this is 0.9: more is too wide, less is too narrow.
    """
    ran = np.isfinite(latency_s)
    return float(covered(low_s, high_s, latency_s)[ran].mean()) if ran.any() else float("nan")


def median_width(low_s: FloatArray, high_s: FloatArray) -> float:
    """Median of high / low, at least 1 and smaller is sharper; NaN without intervals."""
    return float(np.median(high_s / low_s)) if low_s.size else float("nan")
