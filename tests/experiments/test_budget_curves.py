"""Latency at budgets where a kernel was not measured."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "experiments" / "budget_curves"))
from budget_curve import (
    BudgetCurves,
    BudgetReplicates,
    inverse_curve,
    rounds_curve,
    smallest_budget,
    waves_curve,
)

SMS = np.array([8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 132.0])
CURVES = (inverse_curve, rounds_curve, waves_curve)


def kernels(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(16, 4000, n).astype(float), rng.integers(1, 9, n).astype(float)


def known(blocks: np.ndarray, per_sm: np.ndarray, latency_s: np.ndarray) -> BudgetReplicates:
    return BudgetReplicates(blocks, per_sm, (16, 132), latency_s[:, [1, -1]])


def test_each_formula_finds_the_line_that_it_is() -> None:
    blocks, per_sm = kernels(200)
    truths = {
        inverse_curve: 1e-5 + 1e-3 / SMS + 0 * blocks[:, None],
        rounds_curve: 1e-5 + 1e-6 * np.ceil(blocks[:, None] / SMS),
        waves_curve: 1e-5 + 1e-6 * np.ceil(blocks[:, None] / (per_sm[:, None] * SMS)),
    }
    for curve, latency_s in truths.items():
        # Two points tell a line only where they differ.
        told = latency_s[:, 1] > latency_s[:, -1]
        assert told.mean() > 0.8
        found = curve(known(blocks, per_sm, latency_s), SMS)
        np.testing.assert_allclose(found[told], latency_s[told], rtol=1e-9)


@given(st.integers(1, 5000), st.integers(1, 16), st.floats(1e-6, 1.0), st.floats(0.5, 10.0))
def test_curves_pass_through_both_points_and_never_rise(blocks, per_sm, whole_s, slowdown) -> None:
    latency_s = np.array([[whole_s * slowdown, whole_s]])
    one = BudgetReplicates(np.array([float(blocks)]), np.array([float(per_sm)]), (16, 132), latency_s)
    sms = np.arange(1.0, 133.0)
    for curve in CURVES:
        found = curve(one, sms)[0]
        assert (np.diff(found) <= 1e-12 * whole_s).all()
        assert found[-1] == pytest.approx(whole_s)
        if curve is inverse_curve and slowdown >= 1.0:
            assert found[15] == pytest.approx(whole_s * slowdown)


def test_trees_learn_what_the_line_is_off_by_from_other_kernels() -> None:
    pytest.importorskip("xgboost")

    def latency(blocks: np.ndarray, per_sm: np.ndarray) -> np.ndarray:
        # Half of the scaling by waves, half by rounds: no formula of the room is this one.
        waves = np.ceil(blocks[:, None] / (per_sm[:, None] * SMS))
        return 1e-5 + 3e-6 * waves + 1e-6 * np.ceil(blocks[:, None] / SMS)

    blocks, per_sm = kernels(1500)
    train = latency(blocks, per_sm)
    model = BudgetCurves(trees=80).fit(known(blocks, per_sm, train), SMS, train)
    blocks, per_sm = kernels(300, seed=1)
    test = latency(blocks, per_sm)
    asked = known(blocks, per_sm, test)
    found = model.predict(asked, SMS)
    learned, line = (np.median(np.abs(curve / test - 1)) for curve in (found, rounds_curve(asked, SMS)))
    assert learned < 0.5 * line
    np.testing.assert_array_equal(found[:, [1, -1]], asked.latency_s)


def test_the_smallest_budget_is_the_first_that_is_fast_enough() -> None:
    latency_s = np.array([[4.0, 1.1, 1.2, 1.0], [1.0, 1.0, 1.0, 1.0], [9.0, 9.0, 9.0, 1.0]])
    sms = np.array([8, 16, 24, 132])
    assert smallest_budget(latency_s, sms).tolist() == [16, 8, 132]
    assert smallest_budget(latency_s, sms, within=0.05).tolist() == [132, 8, 132]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(2), np.ones(2), (16, 132), np.ones((2, 3))), "must have shapes"),
        ((np.ones(2), np.ones(1), (16, 132), np.ones((2, 2))), "must have shapes"),
        ((np.ones(2), np.ones(2), (132, 16), np.ones((2, 2))), r"0 < sms\[0\] < sms\[1\]"),
    ],
)
def test_impossible_measurements_are_refused(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        BudgetReplicates(*arguments)
