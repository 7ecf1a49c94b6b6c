"""Configs ordered by prediction, with equal predictions in random order."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from costmodel.arrays import FloatArray, Positions


def tie_groups(predicted_score: FloatArray, latency_s: FloatArray) -> Iterator[FloatArray]:
    """Latencies of the configs with the same prediction, best predicted first; few of them are looked at.

    Args:
        predicted_score: ``(n,)``, higher is better.
        latency_s: ``(n,)`` seconds; inf for a config that failed.

    Raises:
        ValueError: The shapes differ, or a prediction is NaN.
    """
    if predicted_score.shape != latency_s.shape or predicted_score.ndim != 1:
        raise ValueError(
            "predicted_score and latency_s must have one shape (n,), "
            f"but got {predicted_score.shape} and {latency_s.shape}"
        )
    if np.isnan(predicted_score).any():
        raise ValueError(f"predicted_score must not be NaN, but got {np.isnan(predicted_score).sum()} NaN")
    order = np.argsort(-predicted_score, kind="stable")
    ranked = predicted_score[order]
    ordered, cuts = latency_s[order], (np.flatnonzero(ranked[1:] != ranked[:-1]) + 1).tolist()
    return (ordered[start:end] for start, end in pairwise([0, *cuts, len(order)]))


def listed_first(predicted_score: FloatArray, first: Positions) -> FloatArray:
    """Return ``(n,)`` scores that rank the configs at these positions first, in this order.

    Args:
        predicted_score: ``(n,)``; the others keep their order and their ties.
        first: ``(m,)`` distinct positions.
    """
    _, places = np.unique(predicted_score, return_inverse=True)
    ranks = places.astype(np.float64)
    ranks[first] = predicted_score.size + len(first) - np.arange(len(first))
    return ranks


def is_fastest(n: int, k: int) -> FloatArray:
    """``(n,)`` probability that number i in ascending order is the fastest of k drawn of n, or of all n.

    It is drawn and none before it is, by the chance that none of the first i was.
    """
    k, i = min(k, n), np.arange(n)
    none_before = np.cumprod(np.concatenate([[1.0], 1.0 - k / (n - i[:-1])]).clip(min=0.0))
    return np.asarray(none_before * np.minimum(1.0, k / (n - i)))
