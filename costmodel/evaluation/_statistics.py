"""What many tasks say together, each with its 95 % interval: a bootstrap over clusters."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._metrics import gap_recovered
from costmodel.learners._statistics import cluster_bootstrap_interval, cluster_bootstrap_ratio, win_rate


def statistics(values: "pd.Series[float]", clusters: "pd.Series[Any]") -> dict[str, Any]:
    """Median, 10th percentile, mean and its interval."""
    low, high = cluster_bootstrap_interval(np.asarray(values, dtype=np.float64), clusters.to_numpy())
    return {
        "median": float(values.median()),
        "p10": float(values.quantile(0.1)),
        "mean": float(values.mean()),
        "mean_ci95": [low, high],
    }


def compare_paired(
    scores: pd.DataFrame, baseline: pd.DataFrame, clusters: "pd.Series[Any]"
) -> dict[str, Any]:
    """Paired differences from a baseline and win rates.

    Args:
        scores: One row a task, its name the index, and one column a metric, higher is better.
        baseline: Likewise; tasks that only one of them has are left out.
        clusters: Cluster of each task by name.

    Returns:
        For each metric ``mean_difference``, its ``ci95``, and ``win_rate``.
    """
    shared = scores.index.intersection(baseline.index)
    of_task = clusters.reindex(shared).to_numpy()
    found = {}
    for name in scores:
        own, other = (table[name].loc[shared].to_numpy() for table in (scores, baseline))
        low, high = cluster_bootstrap_interval(own - other, of_task)
        found[str(name)] = {
            "mean_difference": float((own - other).mean()),
            "ci95": [low, high],
            "win_rate": win_rate(own, other),
        }
    return {"tasks": len(shared), **found}


def gap(log_excess: FloatArray, full: FloatArray, clusters: NDArray[Any]) -> dict[str, float]:
    """``gap_recovered`` and its ends, over the tasks whose whole-device choice is known (not NaN)."""
    known = np.isfinite(full)
    lost, gaps, best = log_excess[known], full[known], np.ones(known.sum())
    low, high = cluster_bootstrap_ratio(gaps - lost, gaps, clusters[known])
    return {
        "gap_recovered": gap_recovered(np.exp(lost), np.exp(gaps), best),
        "gap_recovered_low": low,
        "gap_recovered_high": high,
    }


def coverage(tasks: pd.DataFrame, cluster: str) -> dict[str, float]:
    """Share of the configs that ran within their interval, its ends, and the median width; NaN without."""
    told = tasks[tasks["covered"].notna()]
    within, ran = told["covered"].to_numpy(), told["ran"].to_numpy(dtype=np.float64)
    low, high = cluster_bootstrap_ratio(within, ran, told[cluster].to_numpy())
    return {
        "coverage": float(within.sum() / ran.sum()) if len(told) else float("nan"),
        "coverage_low": low,
        "coverage_high": high,
        "interval_width": float(told["interval_width"].median()),
    }
