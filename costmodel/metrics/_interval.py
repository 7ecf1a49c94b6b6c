"""Confidence intervals for means of results that come in clusters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def cluster_bootstrap_interval(
    values: NDArray[np.float64],
    clusters: NDArray[Any],
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the mean, by drawing whole clusters with replacement.

    Tasks of one workload resemble each other, so the workload is what is drawn (Field and Welsh,
    "Bootstrapping clustered data", JRSS B 69, 2007).

    Args:
        values: ``(t,)`` results.
        clusters: ``(t,)`` cluster of each result.
        seed: Seed of the draws.
        resamples: Number of draws.
        level: Coverage.

    Returns:
        Lower and upper end; both are the mean if there is one cluster.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    sums, counts = np.bincount(codes, weights=values), np.bincount(codes)
    draws = np.random.default_rng(seed).integers(len(counts), size=(resamples, len(counts)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    tail = (1.0 - level) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)
