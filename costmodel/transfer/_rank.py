"""Rank correlation."""

import numpy as np

from costmodel.arrays import FloatArray


def rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Spearman's rank correlation; equal values share their mean rank, and without variation it is 0."""
    ranks = [_mean_ranks(values) for values in (a, b)]
    centred = [rank - rank.mean() for rank in ranks]
    norm = float(np.sqrt(np.square(centred[0]).sum() * np.square(centred[1]).sum()))
    return float(centred[0] @ centred[1]) / norm if norm > 0.0 else 0.0


def _mean_ranks(values: FloatArray) -> FloatArray:
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[position])
