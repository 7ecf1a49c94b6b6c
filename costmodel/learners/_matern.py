"""The similarity of rows that smooth learners share."""

import numpy as np

from costmodel.learners._base import FloatArray


def matern_similarity(Z: FloatArray, known: FloatArray, *, columns: int, length: float) -> FloatArray:
    """``(n, m)`` Matern kernel with smoothness 3/2 between standardised rows, 1 for equal ones.

    ``(1 + r) exp(-r)`` with ``r = sqrt(3) d / length`` and d the root mean square distance over columns
    (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equation 4.17).

    Args:
        Z: ``(n, d)`` rows.
        known: ``(m, d)`` rows to compare them with.
        columns: Columns that vary; the others are 0 in all rows.
        length: Distance, in standard deviations of a column, over which what is learned varies.
    """
    from scipy.spatial.distance import cdist

    r = np.sqrt(3.0 / columns) / length * cdist(Z, known)
    return np.asarray((1.0 + r) * np.exp(-r))
