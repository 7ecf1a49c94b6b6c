"""How much columns matter, and what it changes where a source did not measure a config."""

import numpy as np
import pytest

from costmodel.learners import prepare
from costmodel.learners._curves import TaskCurves, importance

pytestmark = pytest.mark.white_box

COLUMNS = np.arange(1, 5)


def measured():
    """Every config of three columns, the third of which matters most; column 4 repeats the second.

    Column 0 is the task, of which there are two.
    """
    configs = [[task, a, b, c, b] for task in range(2) for a in range(2) for b in range(2) for c in range(8)]
    X = np.array(configs, dtype=float)
    slower = np.array([1.0, 3.0, 2.0, 5.0, 1.5, 4.0, 1.2, 6.0])
    return X, 1e-3 * slower[X[:, 3].astype(int)] * (1.0 + 0.05 * X[:, 1]), X[:, 0]


def total_effect(X: np.ndarray, score: np.ndarray, others: list[int]) -> float:
    """The definition, group by group."""
    groups = [score[(X[:, others] == of).all(axis=1)] for of in np.unique(X[:, others], axis=0)]
    return float(np.average([np.var(group) for group in groups], weights=[group.max() for group in groups]))


def test_a_column_weighs_by_what_it_changes_alone() -> None:
    X, y, tasks = measured()
    first, third = (total_effect(X, y.min() / y, others) for others in ([0, 2, 3, 4], [0, 1, 2, 4]))
    unknown = (first + third) / 2.0  # of two columns that never differ alone
    expected = np.sqrt(np.array([first, unknown, third, unknown]) / third)
    np.testing.assert_allclose(importance(prepare(X, y, tasks), COLUMNS), expected)


def test_what_changes_nothing_keeps_a_little_weight() -> None:
    X, y, tasks = measured()
    np.testing.assert_allclose(importance(prepare(X, y, tasks), np.array([1, 2, 3]))[1], 0.01)


@pytest.mark.parametrize("told", ["one column alone", "all are equally fast"])
def test_where_nothing_is_told_all_columns_count_the_same(told) -> None:
    X, y, tasks = measured()
    if told == "all are equally fast":
        y, columns = np.full(len(y), 1e-3), COLUMNS
    else:  # the second and the fourth are one, and of the third nothing is known
        columns = np.array([1, 2, 4])
    np.testing.assert_array_equal(importance(prepare(X, y, tasks), columns), 1.0)


def test_a_config_that_was_not_measured_is_read_from_those_that_differ_in_little() -> None:
    X, y, tasks = measured()
    log_score = np.log(y.min() / y)
    kept = np.random.default_rng(1).permutation(len(X))[:48]
    training = prepare(X[kept], y[kept], tasks[kept])
    error = {}
    for by_importance in (False, True):
        curves = TaskCurves((0,), 3, (1, 2, 3, 4), by_importance=by_importance).fit(training)
        loaded = TaskCurves((0,), 3, (1, 2, 3, 4)).load_state(curves.state())
        np.testing.assert_array_equal(loaded.log_scores(X), curves.log_scores(X))
        error[by_importance] = np.abs(curves.log_scores(X) - log_score[:, None]).mean()
    assert error[True] < 0.5 * error[False]
