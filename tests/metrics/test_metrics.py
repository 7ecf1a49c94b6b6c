import math
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from costmodel.metrics import (
    budget_gap_error,
    chosen_first,
    cluster_bootstrap_interval,
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    gap_recovered,
    n_eps,
    regret_error,
    relative_error,
    score,
    score_at_k,
)

INF = float("inf")


@st.composite
def tasks(draw, most=6):
    """Predicted scores with ties, and latencies of which the first is finite."""
    n = draw(st.integers(1, most))
    latency = draw(arrays(np.float64, n, elements=st.sampled_from([1.0, 1.03, 2.0, 5.0, INF])))
    latency[0] = draw(st.sampled_from([1.0, 3.0]))
    predicted = draw(arrays(np.float64, n, elements=st.sampled_from([-1.0, 0.0, 0.5])))
    return predicted, latency


def test_score_is_best_over_latency_and_zero_for_failures() -> None:
    assert score(np.array([2.0, 1.0, INF])).tolist() == [0.5, 1.0, 0.0]


def test_score_needs_a_finite_latency() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        score(np.array([INF]))


@given(tasks())
def test_score_at_k_is_the_worst_over_all_ways_to_break_ties(task) -> None:
    predicted, latency = task
    orders = [
        order
        for order in permutations(range(len(latency)))
        if all(predicted[a] >= predicted[b] for a, b in pairwise(order))
    ]
    for k in (1, 2, 3):
        worst = min(latency.min() / latency[list(order[:k])].min() for order in orders)
        assert score_at_k(predicted, latency, k) == worst
    assert regret_error(predicted, latency) == max(latency[order[0]] / latency.min() - 1 for order in orders)


@given(tasks(), st.randoms(use_true_random=False))
def test_score_at_k_does_not_depend_on_the_order_of_configs(task, random) -> None:
    predicted, latency = task
    shuffled = list(range(len(latency)))
    random.shuffle(shuffled)
    assert score_at_k(predicted, latency, 2) == score_at_k(predicted[shuffled], latency[shuffled], 2)


@given(tasks())
def test_score_at_k_grows_with_k_and_ends_at_one(task) -> None:
    scores = [score_at_k(*task, k) for k in range(1, 8)]
    assert scores == sorted(scores)
    assert scores[-1] == 1.0


@pytest.mark.parametrize(
    ("predicted", "k", "message"),
    [([0.0, 1.0], 0, "k must be at least 1"), ([0.0], 1, "one shape"), ([0.0, np.nan], 1, "must not be NaN")],
)
def test_score_at_k_refuses(predicted, k, message) -> None:
    with pytest.raises(ValueError, match=message):
        score_at_k(np.array(predicted), np.array([1.0, 2.0]), k)


@given(tasks(most=5))
def test_n_eps_counts_measurements(task) -> None:
    predicted, latency = task
    ordered = latency[chosen_first(predicted, latency)]
    count = n_eps(ordered, 0.05)
    seen = [ordered[: i + 1].min() <= 1.05 * latency.min() for i in range(len(ordered))]
    assert count == seen.index(True) + 1


def test_n_eps_against_a_best_that_the_order_never_reaches_is_infinite() -> None:
    assert n_eps(np.array([2.0, 3.0]), 0.05, best_s=1.0) == INF
    assert n_eps(np.array([2.0, 1.04]), 0.05, best_s=1.0) == 2.0


@given(tasks(most=5))
def test_expectations_are_means_over_all_draws(task) -> None:
    _, latency = task
    n, best = len(latency), latency.min()
    for k in range(1, n + 2):
        draws = [best / min(draw) for draw in combinations(latency, min(k, n))]
        assert expected_score_at_k(latency, k) == pytest.approx(np.mean(draws))
    counts = [n_eps(np.array(order), 0.05) for order in permutations(latency)]
    assert expected_n_eps(latency, 0.05) == pytest.approx(np.mean(counts))
    finite = [math.log(value / best) for value in latency if value < INF]
    assert expected_log_excess(latency) == pytest.approx(np.mean(finite))


def test_budget_gap_is_relative_to_the_best_at_the_budget() -> None:
    assert budget_gap_error(np.array([3.0, 2.0, INF]), 0) == pytest.approx(0.5)
    assert budget_gap_error(np.array([3.0, 2.0, INF]), 1) == 0.0
    assert budget_gap_error(np.array([3.0, 2.0, INF]), 2) == INF


def test_gap_recovered_pools_logs_over_tasks() -> None:
    best, full = np.array([1.0, 2.0]), np.array([2.0, 8.0])
    assert gap_recovered(best, full, best) == 1.0
    assert gap_recovered(full, full, best) == 0.0
    # log 2 of log 2 + log 4 is lost.
    assert gap_recovered(np.array([2.0, 2.0]), full, best) == pytest.approx(2 / 3)
    assert gap_recovered(np.array([16.0, 2.0]), full, best) == pytest.approx(1 - 4 / 3)
    assert gap_recovered(np.array([INF, 2.0]), full, best) == -INF
    assert math.isnan(gap_recovered(full, best, best))


def test_relative_error_looks_at_configs_that_ran() -> None:
    assert relative_error(np.array([1.1, 5.0, 3.0]), np.array([1.0, INF, 2.0])) == pytest.approx(0.3)
    assert math.isnan(relative_error(np.array([1.0]), np.array([INF])))


def test_bootstrap_draws_clusters() -> None:
    # Within a cluster all values agree, so 100 rows say no more than 4 clusters do.
    means = np.array([0.0, 1.0, 2.0, 3.0])
    low, high = cluster_bootstrap_interval(np.repeat(means, 25), np.repeat(np.arange(4), 25))
    draws = np.array([np.mean(draw) for draw in np.array(np.meshgrid(*[means] * 4)).T.reshape(-1, 4)])
    assert low == pytest.approx(np.quantile(draws, 0.025), abs=0.1)
    assert high == pytest.approx(np.quantile(draws, 0.975), abs=0.1)
    assert cluster_bootstrap_interval(np.array([1.0, 3.0]), np.array(["a", "a"])) == (2.0, 2.0)
