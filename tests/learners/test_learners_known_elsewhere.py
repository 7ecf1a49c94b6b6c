"""A kernel known on other platforms, on one where it was not measured."""

from functools import partial

import numpy as np
import pytest

from costmodel.dataset import Dataset, load_dataset, make_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.evaluation import cross_validate
from costmodel.learners import RidgeLearner
from costmodel.learners._known_elsewhere import KnownElsewhere
from costmodel.learners._random import RandomLearner
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.testing import gpu_landscape
from costmodel.transfer import LearningRows, Model, load_model, make_model

pytestmark = pytest.mark.white_box

# Columns: log2 of SMs, what a device is told by, and the number of the kernel.
SMS = (3.0, 4.0, 5.0, 6.0, 7.0)


def rows(kernels: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, latency and task ids: a kernel's own level, which no column tells, drifts with the SMs."""
    rng = np.random.default_rng(0)
    own, drift = rng.normal(scale=0.5, size=kernels), rng.normal(scale=0.1, size=kernels)
    number = np.arange(float(kernels))
    X = np.concatenate([np.column_stack([np.full(kernels, s), np.ones(kernels), number]) for s in SMS])
    log_latency = np.concatenate([own + drift * (s - 5.0) - 0.5 * s for s in SMS])
    return X, np.exp(log_latency), np.repeat([f"{s}" for s in SMS], kernels)


def make() -> KnownElsewhere:
    return KnownElsewhere(ScaledFromWhole(RidgeLearner(), RidgeLearner(), (2,), 0), (0, 1))


def error(found: np.ndarray, y: np.ndarray) -> float:
    return float(np.median(np.abs(np.log(found / y))))


def test_near_platforms_tell_more_than_far_ones_and_both_more_than_other_kernels() -> None:
    X, y, tasks = rows()
    tested = X[:, 0] == SMS[1]
    errors = []
    for known in (SMS, (SMS[4],), ()):
        learned = ~tested & (np.isin(X[:, 0], known) | (X[:, 2] >= 20))
        of_half = tested & (X[:, 2] < 20)
        learned |= tested & (X[:, 2] >= 20)
        found = make().fit(X[learned], y[learned], tasks[learned]).predict(X[of_half]).latency_s
        assert found is not None
        errors.append(error(found, y[of_half]))
    assert errors[0] < 0.7 * errors[1], errors
    assert errors[1] < 0.7 * errors[2], errors


def test_a_kernel_that_was_never_measured_is_left_to_the_learner_of_others() -> None:
    X, y, tasks = rows()
    new = np.array([[4.0, 1.0, 900.0]])
    found = make().fit(X, y, tasks).predict(new).latency_s
    np.testing.assert_allclose(found, RidgeLearner().fit(X, y, tasks).predict(new).latency_s)


def test_what_was_measured_on_the_platform_stands_and_twice_by_its_mean() -> None:
    X, y, tasks = rows()
    twice = make().fit(np.tile(X, (2, 1)), np.append(y, 4.0 * y), np.tile(tasks, 2))
    np.testing.assert_allclose(twice.predict(X).latency_s, 2.0 * y)


def test_a_device_that_no_column_which_varied_tells_from_the_known_one_is_taken_for_it() -> None:
    X, y, tasks = rows()
    other = X.copy()
    other[:, 1] = 3.0
    np.testing.assert_allclose(make().fit(X, y, tasks).predict(other).latency_s, y)


def test_a_kernel_that_failed_elsewhere_is_slow() -> None:
    X, y, tasks = rows()
    failing, tested = X[:, 2] == 0.0, X[:, 0] == SMS[2]
    y[failing] = np.inf
    model = make().fit(X[~tested], y[~tested], tasks[~tested])
    found = model.predict(X[tested]).latency_s
    assert found is not None
    assert found.argmax() == 0
    assert np.isfinite(found).all()


def test_the_learner_of_others_must_predict_latencies() -> None:
    X, y, tasks = rows()
    model = KnownElsewhere(ScaledFromWhole(RandomLearner(), RidgeLearner(), (2,), 0), (0, 1))
    with pytest.raises(ValueError, match="must predict latencies"):
        model.fit(X, y, tasks)


def test_on_real_kernels_it_chooses_better_than_the_nearest_budget_does() -> None:
    full = load_dataset()
    some = np.isin([platform.sms_granted for platform in full.platforms], (8, 16, 32, 48))
    kept = some[full.measurements["platform"]]
    data = Dataset(full.candidates, full.platforms, full.measurements[kept].reset_index(drop=True))
    models = {name: partial(make_model, name) for name in ("nearest-task", "known-elsewhere")}
    split = make_split(data, SplitRecipe("leave-one-budget-out", folds=2))
    report = cross_validate(data, models, split=split)
    score = {entry["learner"]: entry["score_at_1"]["mean"] for entry in report.statistics()}
    assert score["known-elsewhere"] > score["nearest-task"] + 0.02, score


def test_it_goes_into_a_file_and_comes_back(tmp_path) -> None:
    data = LearningRows.of(gpu_landscape(configs_per_workload=6, sms=(8, 64, 132)))
    learned = np.flatnonzero(data.rows["sms_granted"] != 64)
    model = data.fit(make_model("known-elsewhere", data.table.columns), learned)
    Model(model).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model").model
    np.testing.assert_array_equal(
        loaded.predict(data.table.values).score, model.predict(data.table.values).score
    )
