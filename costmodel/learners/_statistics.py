"""Statistics of results over tasks: intervals by a bootstrap over clusters, and win rates.

Tasks of one workload resemble each other, so whole workloads are resampled (Field and Welsh, "Bootstrapping
clustered data", JRSS B 69, 2007).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def cluster_bootstrap_interval(
    values: FloatArray, clusters: NDArray[Any], *, seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile interval of the mean, by resampling whole clusters with replacement.

    For paired differences, this is the interval of the mean difference.

    Args:
        values: ``(t,)`` results.
        clusters: ``(t,)`` cluster of each result.
        seed: Seed of the draws.
        resamples: Number of draws.
        level: Coverage.

    Returns:
        Lower and upper end; both are the mean if there is one cluster.
    """
    return cluster_bootstrap_ratio(
        values, np.ones(values.shape), clusters, seed=seed, resamples=resamples, level=level
    )


def cluster_bootstrap_ratio(  # noqa: PLR0913 (settings, all with defaults)
    numerators: FloatArray,
    denominators: FloatArray,
    clusters: NDArray[Any],
    *,
    seed: int = 0,
    resamples: int = 2000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile interval of ``sum(numerators) / sum(denominators)``, resampling clusters.

    Draws whose denominators sum to 0 are left out.

    Args:
        numerators: ``(t,)``.
        denominators: ``(t,)``, at least 0.
        clusters: ``(t,)`` cluster of each.
        seed: Seed of the draws.
        resamples: Number of draws.
        level: Coverage.

    Returns:
        Lower and upper end; NaN if no draw has a ratio.
    """
    ratios = draw_ratios(numerators, denominators, clusters, seed=seed, resamples=resamples)
    return percentile_interval(ratios, level)


def draw_ratios(
    numerators: FloatArray,
    denominators: FloatArray,
    clusters: NDArray[Any],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> FloatArray:
    """Return ``(resamples,)`` values of ``sum(numerators) / sum(denominators)`` over clusters that are drawn.

    The draws are the same for all terms of the same clusters, so that differences of two are paired. A draw
    whose denominators sum to 0 is NaN.

    Args: see ``cluster_bootstrap_ratio``.
    """
    found = np.full(resamples, np.nan)
    if not numerators.size:
        return found
    _, codes = np.unique(clusters, return_inverse=True)
    above, below = (np.bincount(codes, weights=terms) for terms in (numerators, denominators))
    draws = np.random.default_rng(seed).integers(above.size, size=(resamples, above.size))
    sums, bases = (terms[draws].sum(axis=1) for terms in (above, below))
    np.divide(sums, bases, out=found, where=bases > 0.0)
    return found


def percentile_interval(draws: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Return the ends between which this share of the draws that are numbers lies; NaN if none is."""
    told = draws[~np.isnan(draws)]
    if not told.size:
        return float("nan"), float("nan")
    tail = (1.0 - level) / 2
    low, high = np.quantile(told, [tail, 1.0 - tail])
    return float(low), float(high)


def win_rate(scores: FloatArray, baseline: FloatArray) -> float:
    """Return the share of tasks with a higher score than the baseline; ties count half. NaN without tasks.

    0.5 means as good as the baseline (the probability of superiority: Vargha and Delaney, "A critique and
    improvement of the CL common language effect size statistics", 2000, on pairs).

    Raises:
        ValueError: The shapes differ.
    """
    if scores.shape != baseline.shape:
        raise ValueError(
            f"scores must have the shape of the baseline, but got {scores.shape} and {baseline.shape}"
        )
    return float(np.mean((scores > baseline) + 0.5 * (scores == baseline))) if scores.size else float("nan")
