import math
from itertools import combinations, pairwise, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from costmodel.errors import CostModelError
from costmodel.evaluation import judge
from costmodel.learners import Prediction, coverage_score, relative_error, score_at_k
from costmodel.learners._metrics import (
    budget_gap_error,
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    gap_recovered,
    listed_first,
    log_excess,
    n_eps,
    ranked_n_eps,
    regret_error,
    score,
)
from costmodel.learners._statistics import cluster_bootstrap_interval

pytestmark = pytest.mark.white_box

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


@pytest.mark.parametrize("size", [0, 2])
def test_metrics_of_a_task_need_a_finite_latency(size) -> None:
    latency = np.full(size, INF)
    for metric in (score, lambda latency: budget_gap_error(latency, 0), lambda latency: n_eps(latency, 0.05)):
        with pytest.raises(ValueError, match=f"at least one latency must be finite, but got none in {size}"):
            metric(latency)


@given(tasks())
def test_ties_count_as_chosen_at_random(task) -> None:
    predicted, latency = task
    orders = [
        order
        for order in permutations(range(len(latency)))
        if all(predicted[a] >= predicted[b] for a, b in pairwise(order))
    ]
    ordered, best = [latency[list(order)] for order in orders], latency.min()
    for k in (1, 2, 3):
        assert score_at_k(predicted, latency, k) == pytest.approx(
            np.mean([best / o[:k].min() for o in ordered])
        )
    assert regret_error(predicted, latency) == pytest.approx(np.mean([o[0] / best - 1 for o in ordered]))
    assert ranked_n_eps(predicted, latency, 0.05) == pytest.approx(np.mean([n_eps(o, 0.05) for o in ordered]))
    first = [o[np.isfinite(o)][0] for o in ordered]
    assert log_excess(predicted, latency) == pytest.approx(np.mean(np.log(np.array(first) / best)))


@given(tasks())
def test_without_any_prediction_a_choice_is_a_draw(task) -> None:
    _, latency = task
    blind = np.zeros(latency.size)
    for k in (1, 2, 3):
        assert score_at_k(blind, latency, k) == pytest.approx(expected_score_at_k(latency, k))
    assert ranked_n_eps(blind, latency, 0.05) == pytest.approx(expected_n_eps(latency, 0.05))
    assert log_excess(blind, latency) == pytest.approx(expected_log_excess(latency))


@given(tasks(), st.randoms(use_true_random=False))
def test_what_is_listed_comes_first_and_the_others_keep_their_ties(task, random) -> None:
    predicted, latency = task
    first = random.sample(range(len(latency)), random.randint(0, len(latency)))
    ranked = listed_first(predicted, np.array(first, dtype=np.intp))
    assert np.argsort(-ranked, kind="stable")[: len(first)].tolist() == first
    others = [i for i in range(len(latency)) if i not in first]
    same = predicted[others][:, None] == predicted[others]
    np.testing.assert_array_equal(ranked[others][:, None] == ranked[others], same)
    assert all((ranked[a] > ranked[b]) == (predicted[a] > predicted[b]) for a in others for b in others)


@given(tasks(), st.randoms(use_true_random=False))
def test_score_at_k_does_not_depend_on_the_order_of_configs(task, random) -> None:
    predicted, latency = task
    shuffled = list(range(len(latency)))
    random.shuffle(shuffled)
    found = score_at_k(predicted[shuffled], latency[shuffled], 2)
    assert score_at_k(predicted, latency, 2) == pytest.approx(found)


@given(tasks())
def test_score_at_k_grows_with_k_and_ends_at_one(task) -> None:
    scores = [score_at_k(*task, k) for k in range(1, 8)]
    assert (np.diff(scores) > -1e-12).all()
    assert scores[-1] == 1.0


@pytest.mark.parametrize(
    ("predicted", "k", "message"),
    [
        ([0.0, 1.0], 0, "k must be a whole number"),
        ([0.0], 1, "one shape"),
        ([0.0, np.nan], 1, "must not be NaN"),
    ],
)
def test_score_at_k_refuses(predicted, k, message) -> None:
    with pytest.raises(ValueError, match=message):
        score_at_k(np.array(predicted), np.array([1.0, 2.0]), k)


def _of_public_metrics(first, latency):
    """Every public metric of a prediction, or of the low ends of intervals, and latencies."""
    yield lambda: score_at_k(first, latency, 1)
    yield lambda: relative_error(first, latency)
    yield lambda: coverage_score(first, first, latency)
    yield lambda: judge(Prediction(first), latency)["score_at_1"]


@pytest.mark.parametrize(
    "make", [list, tuple, pd.Series, lambda values: pd.Series(values, dtype="Float64"), np.float32]
)
def test_public_metrics_take_whatever_is_like_an_array(make) -> None:
    first, latency = [1.0, 2.0, 3.0], [2.0, 4.0, INF]
    expected = [call() for call in _of_public_metrics(np.array(first), np.array(latency))]
    assert [call() for call in _of_public_metrics(make(first), make(latency))] == expected


@pytest.mark.parametrize(
    ("first", "latency"),
    [
        ([1.0, 2.0], [1.0]),
        ([1.0], [1.0, 2.0]),
        ([], []),
        (1.0, 1.0),
        ([[1.0]], [[1.0]]),
        ([1.0], [float("nan")]),
        ([1.0], [-1.0]),
        (["a"], [1.0]),
        (["1"], ["1"]),
        ([1.0, [2.0]], [1.0, 2.0]),
        (None, [1.0]),
        ([1.0], 5),
        ([1j], [1.0]),
    ],
)
def test_public_metrics_refuse_in_a_sentence(first, latency) -> None:
    for call in _of_public_metrics(first, latency):
        with pytest.raises(CostModelError, match=r"must .*, but got .*\.$"):
            call()


@given(tasks(most=5))
def test_n_eps_counts_measurements(task) -> None:
    _, ordered = task
    latency = ordered
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
    # Half of a gap of 2 % is a half as well.
    assert gap_recovered(1.01 * best, 1.01**2 * best, best) == pytest.approx(0.5)


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
