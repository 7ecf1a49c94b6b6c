"""Metrics of a choice within one task.

Notations:
    n: configs of the task.
    latency_s: ``(n,)`` positive seconds; ``inf`` for a config that failed.
    predicted_score: ``(n,)``, higher is better. For equal predictions, a metric is the exact expectation
        over all orders of these configs, so that no rule can profit from the order of a file.
"""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.metrics._ties import is_fastest, tie_groups


def score(latency_s: FloatArray) -> FloatArray:
    """Return best latency / latency, in [0, 1]: 1 for the best, 0 for failures.

    Raises:
        ValueError: No latency is finite.
    """
    return best_latency(latency_s) / latency_s


def score_at_k(predicted_score: FloatArray, latency_s: FloatArray, k: int) -> float:
    """Return best latency / best latency of the k configs predicted best; 0 if all of these fail.

    With fewer than k configs all are chosen, and the result is 1.

    Raises:
        ValueError: ``k < 1``, no latency is finite, or see ``tie_groups``.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, but got {k}")
    best, chosen_s = best_latency(latency_s), np.inf
    for tied_s in tie_groups(predicted_score, latency_s):
        if tied_s.size > k:
            fastest_s = np.minimum(chosen_s, np.sort(tied_s))
            return float((is_fastest(tied_s.size, k) * best / fastest_s).sum()) if k else best / chosen_s
        chosen_s, k = min(chosen_s, float(tied_s.min())), k - tied_s.size
    return 1.0


def regret_error(predicted_score: FloatArray, latency_s: FloatArray) -> float:
    """Return latency of the config predicted best / best latency - 1; inf if that config may fail.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    return float(next(tie_groups(predicted_score, latency_s)).mean()) / best_latency(latency_s) - 1.0


def log_excess(predicted_score: FloatArray, latency_s: FloatArray) -> float:
    """Return ``log(first that runs / best)`` of configs tried in the order of their predictions.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    best = best_latency(latency_s)
    ran = (tied[np.isfinite(tied)] for tied in tie_groups(predicted_score, latency_s))
    first = next(tied for tied in ran if tied.size)
    return float(np.log(first / best).mean())


def ranked_n_eps(predicted_score: FloatArray, latency_s: FloatArray, eps: float) -> float:
    """Return the number of measurements in predicted order until one is within ``eps`` of the best.

    With g configs of equal prediction, h of them within ``eps``, it takes ``(g + 1) / (h + 1)`` measurements.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    most_s, before = best_latency(latency_s) * (1.0 + eps), 0
    for tied in tie_groups(predicted_score, latency_s):
        hits = int((tied <= most_s).sum())
        if hits:
            return before + (tied.size + 1) / (hits + 1)
        before += tied.size
    raise AssertionError("the best is within eps of itself")


def n_eps(ordered_latency_s: FloatArray, eps: float, best_s: float | None = None) -> float:
    """Return the number of measurements in this order until one is within ``eps`` of the best, from 1.

    Args:
        ordered_latency_s: ``(n,)`` latencies in the order in which they are measured.
        eps: Accepted excess over the best latency, such as 0.05 for 5%.
        best_s: Best latency of the task. Default: the best in the order. The result is inf if no measurement
            is within ``eps`` of it.

    Raises:
        ValueError: ``best_s`` is None and no latency is finite.
    """
    best = best_latency(ordered_latency_s) if best_s is None else best_s
    hits = np.flatnonzero(ordered_latency_s <= best * (1.0 + eps))
    return float(hits[0] + 1) if hits.size else float("inf")


def relative_error(predicted_s: FloatArray, latency_s: FloatArray) -> float:
    """Return the median of |predicted / measured - 1| over the configs that ran; NaN if none ran."""
    ran = np.isfinite(latency_s)
    errors = np.abs(predicted_s[ran] / latency_s[ran] - 1.0)
    return float(np.median(errors)) if errors.size else float("nan")


def best_latency(latency_s: FloatArray) -> float:
    """Return the lowest latency of a task.

    Raises:
        ValueError: No latency is finite.
    """
    best = float(latency_s.min(initial=np.inf))
    if not np.isfinite(best):
        raise ValueError(f"at least one latency must be finite, but got none in {latency_s.size}")
    return best
