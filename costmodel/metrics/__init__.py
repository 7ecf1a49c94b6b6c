"""Metrics as pure functions on arrays. Higher ``*_score`` is better, lower ``*_error`` is better."""

from costmodel.metrics._budget import budget_gap_error, gap_recovered
from costmodel.metrics._coverage import coverage_score, covered, median_width
from costmodel.metrics._expected import expected_log_excess, expected_n_eps, expected_score_at_k
from costmodel.metrics._interval import cluster_bootstrap_interval, cluster_bootstrap_ratio
from costmodel.metrics._paired import win_rate
from costmodel.metrics._score import (
    log_excess,
    n_eps,
    ranked_n_eps,
    regret_error,
    relative_error,
    score,
    score_at_k,
)
from costmodel.metrics._ties import listed_first

__all__ = [
    "budget_gap_error",
    "cluster_bootstrap_interval",
    "cluster_bootstrap_ratio",
    "coverage_score",
    "covered",
    "expected_log_excess",
    "expected_n_eps",
    "expected_score_at_k",
    "gap_recovered",
    "listed_first",
    "log_excess",
    "median_width",
    "n_eps",
    "ranked_n_eps",
    "regret_error",
    "relative_error",
    "score",
    "score_at_k",
    "win_rate",
]
