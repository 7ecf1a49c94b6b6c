"""Exact expectations of the metrics for a choice at random, without replacement."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def expected_score_at_k(latency_s: FloatArray, k: int) -> float:
    """Expected Score@k of k configs drawn at random.

    With latencies in ascending order, the fastest of the k is number i (from 0) with probability
    ``C(n - 1 - i, k - 1) / C(n, k)``. Failures score 0.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        k: Configs drawn; all of them if fewer.
    """
    ordered = np.sort(latency_s)
    remaining = ordered.size
    k = min(k, remaining)
    # P(number i is drawn and none before it), by the chance that none of the first i was drawn.
    i = np.arange(remaining)
    none_before = np.cumprod(np.concatenate([[1.0], 1.0 - k / (remaining - i[:-1])]).clip(min=0.0))
    probability = none_before * np.minimum(1.0, k / (remaining - i))
    return float((probability * ordered[0] / ordered).sum())


def expected_n_eps(latency_s: FloatArray, eps: float) -> float:
    """Expected number of measurements in random order until one is within ``eps`` of the best.

    It is ``(n + 1) / (hits + 1)`` with ``hits`` configs within ``eps``.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        eps: 0.05 accepts a latency up to 5 % above the best.
    """
    hits = int((latency_s <= latency_s.min() * (1.0 + eps)).sum())
    return (latency_s.size + 1) / (hits + 1)


def expected_log_excess(latency_s: FloatArray) -> float:
    """Expected ``log(chosen / best)`` of one config drawn at random among those that do not fail."""
    finite = latency_s[np.isfinite(latency_s)]
    return float(np.log(finite / finite.min()).mean())
