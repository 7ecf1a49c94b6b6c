"""Trees that XGBoost boosted say the same when NumPy walks them, leaves above the last level too."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.features._ir import READ_COLUMNS

xgboost = pytest.importorskip("xgboost")
with found_beside(Path(__file__).parents[2] / "experiments" / "kernels_at_large", ("study", "judge")):
    from study import Rows, boost, kernel_kinds, ranker_of

pytestmark = pytest.mark.white_box


def rows(n: int = 400) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, len(READ_COLUMNS))).round(1).astype(np.float16)
    y = np.where(X[:, 3] > 0, X[:, 5], 0.0) + 0.1 * rng.normal(size=n)
    X[7], y[8] = np.nan, np.nan  # one was not read, one did not run
    return Rows(pd.DataFrame({"kind": np.repeat(["a", "b"], [n - 40, 40])}), X, y)


def test_numpy_walks_what_xgboost_boosted() -> None:
    known = rows()
    boosters = boost(known, np.arange(len(known.y)), seeds=3, trees=5)
    read = known.X[~np.isnan(known.X[:, 0])]
    expected = np.mean([each.predict(xgboost.DMatrix(read.astype(np.float32))) for each in boosters], axis=0)
    found = ranker_of(boosters).predict_relative(read)
    assert np.ptp(expected) > 0.5
    assert found == pytest.approx(expected, abs=2e-3)  # leaves are float16


def test_each_kernel_here_has_a_kind() -> None:
    kinds = kernel_kinds()
    assert kinds["triton.cumsum_rows"] == "scans"
    assert len(set(kinds.values())) == 13
