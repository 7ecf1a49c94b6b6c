"""Rows are brought into one order, and standardised, without copies of all of them."""

import numpy as np
import pytest

from costmodel.learners import prepare
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import canonical_order

pytestmark = pytest.mark.white_box


def rows(seed: int = 0, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of which many are tied, with constant and missing columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(3, size=(n, 5)).astype(np.float64)
    X[:, 1], X[:, 2] = np.nan, 7.0
    X[rng.random(n) < 0.3, 3] = np.nan
    return X, rng.integers(1, 4, n) / 8, rng.integers(4, size=n)


def test_the_order_is_by_task_then_by_columns_then_by_latency() -> None:
    X, y, tasks = rows()
    np.testing.assert_array_equal(canonical_order(X, y, tasks), np.lexsort([y, *X.T[::-1], tasks]))


def test_what_is_learned_from_does_not_depend_on_the_order_given() -> None:
    X, y, tasks = rows()
    given = prepare(X, y, tasks)
    order = np.random.default_rng(1).permutation(len(y))
    other = prepare(X[order], y[order], tasks[order])
    for name in ("X", "log_latency", "clipped_log_latency", "log_score", "tasks"):
        np.testing.assert_array_equal(getattr(other, name), getattr(given, name))


def test_rows_in_order_are_not_copied() -> None:
    X, y, tasks = rows()
    order = canonical_order(X, y, tasks)
    X, y, tasks = X[order], y[order], tasks[order]
    assert prepare(X, y, tasks).X is X


@pytest.mark.parametrize("columns", [None, np.array([True, False, True, True])])
def test_means_and_deviations_of_more_rows_than_are_read_at_once(columns: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, [1.0, 2.0, 3.0, 4.0], (2**18 + 1000, 4))
    X[: 2**18, 3] = np.nan
    X[5, 0] = np.nan
    scaler = Scaler().fit(X, columns)
    chosen = X if columns is None else X[:, columns]
    np.testing.assert_allclose(scaler.mean_, np.nanmean(chosen, axis=0))
    np.testing.assert_allclose(scaler.scale_, np.nanstd(chosen, axis=0))
