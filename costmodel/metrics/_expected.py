"""Exact expectations of the metrics for random choice without replacement."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.metrics._ties import is_fastest


def expected_score_at_k(latency_s: FloatArray, k: int) -> float:
    """Return the expected Score@k of k configs drawn at random.

    With latencies in ascending order, the fastest of the k is number i (from 0) with probability
    ``C(n - 1 - i, k - 1) / C(n, k)``. Failures score 0.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        k: Number of configs drawn; all of them if there are fewer.
    """
    ordered = np.sort(latency_s)
    return float((is_fastest(ordered.size, k) * ordered[0] / ordered).sum())


def expected_n_eps(latency_s: FloatArray, eps: float) -> float:
    """Return the expected number of measurements in random order until one is within ``eps`` of the best.

    It is ``(n + 1) / (hits + 1)`` with ``hits`` configs within ``eps``.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        eps: Accepted excess over the best latency, such as 0.05 for 5%.
    """
    hits = int((latency_s <= latency_s.min() * (1.0 + eps)).sum())
    return (latency_s.size + 1) / (hits + 1)


def expected_log_excess(latency_s: FloatArray, k: int = 1) -> float:
    """Return the expected ``log(fastest / best)`` of the fastest of k random configs that do not fail."""
    ordered = np.sort(latency_s[np.isfinite(latency_s)])
    return float((is_fastest(ordered.size, k) * np.log(ordered / ordered[0])).sum())
