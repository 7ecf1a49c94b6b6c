"""Paired comparison, coverage of intervals, and bootstraps of ratios."""

import math

import numpy as np
import pytest

from costmodel.learners import coverage_score
from costmodel.learners._metrics import covered, expected_log_excess, median_width
from costmodel.learners._statistics import cluster_bootstrap_interval, cluster_bootstrap_ratio, win_rate

pytestmark = pytest.mark.white_box

INF = float("inf")


def test_win_rate_counts_ties_half() -> None:
    assert win_rate(np.array([1.0, 0.5, 0.5, 0.2]), np.array([0.5, 0.5, 1.0, 0.1])) == (2 + 0.5) / 4
    assert math.isnan(win_rate(np.zeros(0), np.zeros(0)))
    with pytest.raises(ValueError, match="shape of the baseline"):
        win_rate(np.zeros(2), np.zeros(3))


def test_coverage_is_of_configs_that_ran_and_ends_belong_to_the_interval() -> None:
    low, high = np.array([1.0, 1.0, 1.0, 1.0]), np.array([2.0, 2.0, 2.0, INF])
    latency = np.array([1.0, 2.0, 2.1, INF])
    assert covered(low, high, latency).tolist() == [True, True, False, False]
    assert coverage_score(low, high, latency) == pytest.approx(2 / 3)
    assert math.isnan(coverage_score(low[3:], high[3:], latency[3:]))
    assert coverage_score(np.array([np.nan]), np.array([2.0]), np.array([1.0])) == 0.0


def test_coverage_of_a_known_distribution_is_its_level() -> None:
    latency = np.random.default_rng(0).lognormal(sigma=0.3, size=20_000)
    end = np.exp(1.6449 * 0.3)
    share = coverage_score(np.full(20_000, 1 / end), np.full(20_000, end), latency)
    assert share == pytest.approx(0.9, abs=0.01)
    assert median_width(np.array([1.0, 2.0, 1.0]), np.array([2.0, 3.0, 4.0])) == 2.0
    assert math.isnan(median_width(np.zeros(0), np.zeros(0)))


def test_a_ratio_is_drawn_with_its_denominator() -> None:
    rng = np.random.default_rng(1)
    below, clusters = rng.uniform(1, 5, 60), np.repeat(np.arange(12), 5)
    # A constant ratio has no spread, however unequal the terms are.
    assert cluster_bootstrap_ratio(3 * below, below, clusters) == pytest.approx((3.0, 3.0))
    # Terms may be small, and a draw of the clusters without any has no ratio.
    below[clusters < 9] = 0.0
    assert cluster_bootstrap_ratio(3e-9 * below, 1e-9 * below, clusters) == pytest.approx((3.0, 3.0))
    values = rng.normal(size=60)
    assert cluster_bootstrap_ratio(values, np.ones(60), clusters) == cluster_bootstrap_interval(
        values, clusters
    )
    assert all(map(math.isnan, cluster_bootstrap_ratio(values, np.zeros(60), clusters)))
    assert all(map(math.isnan, cluster_bootstrap_ratio(np.zeros(0), np.zeros(0), np.zeros(0))))


def test_the_fastest_of_several_drawn_is_the_mean_over_draws() -> None:
    latency, rng = np.array([3.0, 1.0, INF, 2.0, 8.0, 5.0]), np.random.default_rng(0)
    running = latency[np.isfinite(latency)]
    for k in (1, 2, 4, 9):
        draws = [np.log(rng.permutation(running)[:k].min()) for _ in range(20_000)]
        assert expected_log_excess(latency, k) == pytest.approx(np.mean(draws), abs=0.02)
