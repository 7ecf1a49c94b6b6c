"""A kernel known on the whole device, on fewer SMs."""

from functools import partial

import numpy as np
import pytest

from costmodel.dataset import Dataset, load_dataset, make_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.evaluation import cross_validate
from costmodel.learners import RidgeLearner, XGBoostLearner
from costmodel.learners._random import RandomLearner
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.testing import gpu_landscape
from costmodel.transfer import Model, load_model, make_model

pytestmark = pytest.mark.white_box

# Columns: log2 of SMs, number of the kernel, and its blocks.
WHOLE, PART = 7.0, 4.0


def rows(kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, latency and task ids on whole and part; no column tells how long a kernel takes on the whole."""
    rng = np.random.default_rng(0)
    blocks = rng.uniform(3.0, 9.0, kernels.size)
    own = rng.lognormal(sigma=2.0, size=kernels.size)
    X = np.concatenate([np.column_stack([np.full(kernels.size, s), kernels, blocks]) for s in (WHOLE, PART)])
    scaling = np.where(X[:, 0] == PART, 2.0 ** np.maximum(0.0, X[:, 2] - PART) * 0.5, 1.0)
    return X, np.tile(own, 2) * scaling, np.array(["whole"] * kernels.size + ["part"] * kernels.size)


def make() -> ScaledFromWhole:
    return ScaledFromWhole(RidgeLearner(), XGBoostLearner(rounds=120, min_child_weight=2), (1, 2), 0)


def test_a_part_is_predicted_from_the_whole_by_how_others_scale() -> None:
    X, y, tasks = rows(np.arange(600.0))
    tested = (X[:, 0] == PART) & (X[:, 1] >= 500)
    model = make().fit(X[~tested], y[~tested], tasks[~tested])
    found = model.predict(X[tested])
    assert found.latency_s is not None
    assert np.median(np.abs(found.latency_s / y[tested] - 1)) < 0.2
    alone = RidgeLearner().fit(X[~tested], y[~tested], tasks[~tested]).predict(X[tested]).latency_s
    assert alone is not None
    assert np.median(np.abs(alone / y[tested] - 1)) > 0.5
    # On the whole device it says what was measured.
    whole = (X[:, 0] == WHOLE) & (X[:, 1] >= 500)
    np.testing.assert_allclose(model.predict(X[whole]).latency_s, y[whole])


def test_kernels_that_were_never_measured_or_failed_are_left_to_the_other_learner() -> None:
    X, y, tasks = rows(np.arange(50.0))
    y[3] = np.inf
    tested = (X[:, 0] == PART) & (X[:, 1] == 3.0)
    model = make().fit(X[~tested], y[~tested], tasks[~tested])
    alone = RidgeLearner().fit(X[~tested], y[~tested], tasks[~tested])
    new = np.array([[PART, 900.0, 5.0]])
    np.testing.assert_allclose(model.predict(new).latency_s, alone.predict(new).latency_s)
    ratio = model.predict(X[tested]).latency_s / alone.predict(X[tested]).latency_s
    np.testing.assert_allclose(ratio, 64.0)


def test_the_other_learner_must_predict_latencies() -> None:
    X, y, tasks = rows(np.arange(20.0))
    model = ScaledFromWhole(RandomLearner(), RidgeLearner(), (1, 2), 0).fit(X, y, tasks)
    with pytest.raises(ValueError, match="must predict latencies"):
        model.predict(X)


def test_on_real_kernels_it_recovers_more_of_the_gap_than_trees_that_are_told_the_same() -> None:
    full = load_dataset()
    some = np.isin([platform.sms_granted for platform in full.platforms], (8, 32, 132))
    kept = some[full.measurements["platform"]]
    data = Dataset(full.candidates, full.platforms, full.measurements[kept].reset_index(drop=True))
    models = {name: partial(make_model, name) for name in ("xgboost", "scaled-from-whole")}
    split = make_split(data, SplitRecipe("whole-device-only", folds=2))
    report = cross_validate(data, models, split=split)
    gap = {entry["learner"]: entry["gap_recovered"] for entry in report.statistics()}
    assert gap["scaled-from-whole"] > max(gap["xgboost"], 0.0) + 0.1, gap


def test_it_goes_into_a_file_and_comes_back(tmp_path) -> None:
    from costmodel.transfer import LearningRows

    data = LearningRows.of(gpu_landscape(configs_per_workload=6, sms=(8, 132)))
    model = data.fit(make_model("scaled-from-whole", data.table.columns), np.arange(len(data.rows)))
    Model(model).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").model
    np.testing.assert_array_equal(
        loaded.predict(data.table.values).score, model.predict(data.table.values).score
    )
