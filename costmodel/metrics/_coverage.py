"""Coverage and width of prediction intervals.

Only both together are meaningful: an interval from 0 to infinity covers everything.
"""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def covered(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> NDArray[np.bool_]:
    """Return ``(n,)`` whether ``low <= latency <= high``; False for a failed config or a NaN end."""
    return np.asarray((low_s <= latency_s) & (latency_s <= high_s) & np.isfinite(latency_s))


def coverage_score(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> float:
    """Return the share of configs that ran with latency within their interval; NaN if none ran.

    Intervals of level 0.9 are calibrated if the share is 0.9. If it is higher, they are too wide; if lower,
    too narrow.
    """
    ran = np.isfinite(latency_s)
    return float(covered(low_s, high_s, latency_s)[ran].mean()) if ran.any() else float("nan")


def median_width(low_s: FloatArray, high_s: FloatArray) -> float:
    """Return the median of high / low, at least 1; smaller is sharper. NaN without intervals."""
    return float(np.median(high_s / low_s)) if low_s.size else float("nan")
