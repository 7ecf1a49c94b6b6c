"""Exact expectations of the metrics for a choice at random, without replacement."""

import numpy as np

from costmodel.arrays import FloatArray


def expected_score_at_k(latency_s: FloatArray, k: int) -> float:
    """Expected Score@k of k configs drawn at random.

    With latencies in ascending order, the fastest of the k is number i (from 0) with probability
    ``C(n - 1 - i, k - 1) / C(n, k)``. Failures score 0.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        k: Configs drawn; all of them if fewer.
    """
    ordered = np.sort(latency_s)
    return float((_is_fastest(ordered.size, k) * ordered[0] / ordered).sum())


def expected_n_eps(latency_s: FloatArray, eps: float) -> float:
    """Expected number of measurements in random order until one is within ``eps`` of the best.

    It is ``(n + 1) / (hits + 1)`` with ``hits`` configs within ``eps``.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        eps: 0.05 accepts a latency up to 5 % above the best.
    """
    hits = int((latency_s <= latency_s.min() * (1.0 + eps)).sum())
    return (latency_s.size + 1) / (hits + 1)


def expected_log_excess(latency_s: FloatArray, k: int = 1) -> float:
    """Expected ``log(fastest / best)`` of the fastest of k configs drawn among those that do not fail."""
    ordered = np.sort(latency_s[np.isfinite(latency_s)])
    return float((_is_fastest(ordered.size, k) * np.log(ordered / ordered[0])).sum())


def _is_fastest(n: int, k: int) -> FloatArray:
    """``(n,)`` probability that number i in ascending order is the fastest of k drawn of n, or of all n.

    It is drawn and none before it is, by the chance that none of the first i was.
    """
    k, i = min(k, n), np.arange(n)
    none_before = np.cumprod(np.concatenate([[1.0], 1.0 - k / (n - i[:-1])]).clip(min=0.0))
    return np.asarray(none_before * np.minimum(1.0, k / (n - i)))
