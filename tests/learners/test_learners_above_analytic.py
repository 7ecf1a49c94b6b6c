import numpy as np
import pytest

from costmodel.learners import XGBoostLearner
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._stack import AboveAnalytic

pytestmark = pytest.mark.white_box


def planted_rows(least: float, most: float, seed: int):
    """Rows of which waiting takes 40 times as long as the roofline says, and a column of 20 % more."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(least, most, size=600)
    waits = size + rng.uniform(-1.0, 1.0, size=600)
    config = rng.integers(0, 2, size=600)
    y = 40.0 * np.exp2(waits) * (1.0 + 0.2 * config)
    return np.column_stack([size, waits - size, config]), y, np.round(size)


def median_error(learner, X, y) -> float:
    return float(np.median(np.abs(np.log(learner.predict(X).latency_s / y))))


def test_what_the_roofline_does_not_know_is_told_for_sizes_beyond_those_learned_from() -> None:
    rows, (X, y, _) = planted_rows(-20.0, -16.0, 0), planted_rows(-12.0, -10.0, 1)
    above = AboveAnalytic(AnalyticPrior(0, (1,)), XGBoostLearner(3, rounds=60)).fit(*rows)
    assert median_error(above, X, y) < 0.03  # 0.016 with XGBoost 3.2, 0.026 with 3.4
    # Trees above the roofline have to find the times among the columns.
    assert median_error(XGBoostLearner(0, rounds=60).fit(*rows), X, y) > 0.05
    assert median_error(AnalyticPrior(0, (1,)).fit(*rows), X, y) == pytest.approx(0.09, abs=0.03)


def test_fit_again_forgets() -> None:
    learner = AboveAnalytic(AnalyticPrior(0, (1,)), XGBoostLearner(3, rounds=20))
    first, second = planted_rows(-20.0, -16.0, 0), planted_rows(-20.0, -16.0, 1)
    said = learner.fit(*first).predict(second[0]).latency_s
    learner.fit(second[0], 7.0 * second[1], second[2])
    np.testing.assert_array_equal(learner.fit(*first).predict(second[0]).latency_s, said)
