"""Choices over a table of latencies, against brute force."""

from itertools import combinations, product

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.search import Objective
from costmodel.search._objective import ObjectiveName, fewest_sms
from costmodel.search._portfolio import best_portfolio, smallest_portfolio

pytestmark = pytest.mark.white_box


def table(seed, kernels=5, budgets=5, lost=0.15):
    """Latencies with a few failures and holes, at least one kernel working at each budget."""
    rng = np.random.default_rng(seed)
    latency_s = np.exp(rng.normal(size=(kernels, budgets))) * 1e-5
    missing = rng.random(latency_s.shape) < lost
    missing[0] = False
    latency_s[missing] = rng.choice([np.nan, np.inf], size=missing.sum())
    return latency_s


def ratios(latency_s):
    known = np.where(np.isnan(latency_s), np.inf, latency_s)
    return known / known.min(axis=0)


def partitions(budgets, most):
    """Every way to cut neighbours into at most so many ranges."""
    for k in range(1, most + 1):
        for cuts in combinations(range(1, budgets), k - 1):
            yield list(zip((0, *cuts), (*cuts, budgets), strict=True))


def served(latency_s, ranges):
    """Ratio to the best at each budget under a portfolio."""
    ratio = ratios(latency_s)
    assert [i for part in ranges for i in range(part.first, part.last + 1)] == list(range(ratio.shape[1]))
    return np.concatenate([ratio[r.kernel, r.first : r.last + 1] for r in ranges])


def brute_force(latency_s, most, value):
    """Smallest value of all portfolios, and the fewest ranges that reach it."""
    ratio, found = ratios(latency_s), []
    for cut in partitions(ratio.shape[1], most):
        for kernels in product(range(len(ratio)), repeat=len(cut)):
            parts = [ratio[kernel, a:b] for kernel, (a, b) in zip(kernels, cut, strict=True)]
            found.append((value(np.concatenate(parts)), len(cut)))
    best = min(v for v, _ in found)
    return best, min(k for v, k in found if v <= best * (1 + 1e-12))


def geometric_mean(weights):
    return lambda ratio: np.exp(np.average(np.log(ratio), weights=weights))


WEIGHTS = (1.0, 5.0, 0.5, 2.0, 1.0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "weights", "value"),
    [
        (ObjectiveName.WORST_REGRET, None, np.max),
        (ObjectiveName.MEAN, None, geometric_mean(None)),
        (ObjectiveName.WEIGHTED, WEIGHTS, geometric_mean(WEIGHTS)),
    ],
)
def test_portfolio_is_that_of_brute_force(seed, most, name, weights, value):
    latency_s = table(seed)
    ranges = best_portfolio(latency_s, Objective.make(name, 5, weights), most)
    best, fewest = brute_force(latency_s, most, value)
    assert value(served(latency_s, ranges)) == pytest.approx(best, rel=1e-12)
    assert len(ranges) == fewest


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tolerance", [0.0, 0.3, 1.0, 5.0])
def test_smallest_portfolio_is_the_smallest_within_the_tolerance(seed, tolerance):
    latency_s = table(seed)
    ranges = smallest_portfolio(latency_s, tolerance, Objective.make(ObjectiveName.WORST_REGRET, 5))
    assert served(latency_s, ranges).max() <= 1 + tolerance + 1e-9
    fewer, _ = brute_force(latency_s, len(ranges) - 1, np.max) if len(ranges) > 1 else (np.inf, 0)
    assert fewer > 1 + tolerance


def test_one_range_is_the_kernel_with_the_smallest_regret():
    latency_s = table(1, kernels=30, lost=0.0)
    for name in (ObjectiveName.WORST_REGRET, ObjectiveName.MEAN):
        objective = Objective.make(name, 5)
        (only,) = best_portfolio(latency_s, objective, 1)
        assert only.kernel == objective.regret(latency_s).argmin()


def test_regrets_by_hand():
    latency_s = np.array([[1.0, 4.0], [2.0, 2.0], [1.0, np.nan], [np.inf, 2.0]])
    worst = Objective.make(ObjectiveName.WORST_REGRET, 2).regret(latency_s)
    np.testing.assert_allclose(worst, [1.0, 1.0, np.inf, np.inf])
    mean = Objective.make(ObjectiveName.MEAN, 2).regret(latency_s)
    np.testing.assert_allclose(mean, [np.sqrt(2) - 1, np.sqrt(2) - 1, np.inf, np.inf])
    weighted = Objective.make(ObjectiveName.WEIGHTED, 2, (3.0, 1.0)).regret(latency_s)
    np.testing.assert_allclose(weighted, [2**0.25 - 1, 2**0.75 - 1, np.inf, np.inf])


def test_of_equally_bad_kernels_the_one_better_elsewhere_is_taken():
    latency_s = np.array([[1.0, 9.0, 9.0], [3.0, 3.0, 1.0], [3.0, 1.5, 1.0], [9.0, 1.0, 9.0]])
    (only,) = best_portfolio(latency_s, Objective.make(ObjectiveName.WORST_REGRET, 3), 1)
    assert only.kernel == 2


def test_kernels_that_cannot_serve_all_budgets_are_an_error_for_the_user():
    latency_s = np.array([[1.0, np.inf], [np.nan, 1.0]])
    objective = Objective.make(ObjectiveName.WORST_REGRET, 2)
    assert [part.kernel for part in best_portfolio(latency_s, objective, 2)] == [0, 1]
    with pytest.raises(CostModelError, match="no 1 of 2 do"):
        best_portfolio(latency_s, objective, 1)
    with pytest.raises(CostModelError, match="at 1 of 2 budgets"):
        best_portfolio(latency_s[:1], objective, 1)


def test_weights_belong_to_the_weighted_objective():
    for name, weights in [
        (ObjectiveName.MEAN, (1.0, 1.0)),
        (ObjectiveName.WEIGHTED, None),
        (ObjectiveName.WEIGHTED, (1.0,)),
        (ObjectiveName.WEIGHTED, (1.0, 0.0)),
    ]:
        with pytest.raises(CostModelError, match=r"[Ww]eight"):
            Objective.make(name, 2, weights)
    assert Objective.make(ObjectiveName.MEAN, 3).weights == (1.0, 1.0, 1.0)
    assert Objective.make(ObjectiveName.WEIGHTED, 2, (0.5, 3.0)).weights == (0.5, 3.0)


def test_fewest_sms_within_a_tolerance():
    latency_s = np.array([[4.0, 2.08, 2.05, 9.0], [5.0, 3.0, 2.5, 2.0], [9.0, np.nan, 9.0, np.inf]])
    free = fewest_sms(latency_s, (8, 64, 96, 132), 0.04)
    assert (free.budget, free.kernel, free.whole_kernel) == (1, 0, 1)
    assert free.cost == pytest.approx(0.04)
    assert fewest_sms(latency_s, (8, 64, 96, 132), 0.03).budget == 2
    assert fewest_sms(latency_s, (8, 64, 96, 132), 0.0).budget == 3
    assert fewest_sms(latency_s[:, ::-1], (132, 96, 64, 8), 0.04).budget == 2


def test_fewer_sms_may_be_faster():
    free = fewest_sms(np.array([[1.0, 2.0]]), (8, 16), 0.0)
    assert (free.budget, free.cost) == (0, -0.5)
    with pytest.raises(CostModelError, match="at least 0 %"):
        fewest_sms(np.array([[1.0, 2.0]]), (8, 16), -0.1)
