import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge as ReferenceKernelRidge
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from costmodel.learners import KernelRidge, RidgeLearner, XGBoostLearner, prepare
from costmodel.learners._curves import TaskCurves
from costmodel.learners._random import RandomLearner
from costmodel.learners._scaler import Scaler
from costmodel.learners._source_rules import NearestTask, WeightedConsensus
from costmodel.testing import contract_rows

pytestmark = pytest.mark.white_box


@pytest.fixture
def shared_configs():
    """Three tasks that measured the same 12 configs; column 0 is the task."""
    rng = np.random.default_rng(0)
    configs = rng.normal(size=(12, 2))
    times = rng.lognormal(size=(3, 12))
    X = np.vstack([np.column_stack([np.full(12, task), configs]) for task in (0.0, 1.0, 5.0)])
    return X, times, np.repeat([0, 1, 2], 12)


def test_consensus_on_shared_configs_is_the_mean_log_score_over_sources(shared_configs) -> None:
    X, times, tasks = shared_configs
    queries = np.column_stack([np.full(12, 2.0), X[:12, 1:]])
    score = WeightedConsensus(()).fit(X[:, 1:], times.ravel(), tasks).predict(queries[:, 1:]).score
    classical = -np.log(times / times.min(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(score, classical, rtol=1e-6)


def test_consensus_weighs_near_tasks_more(shared_configs) -> None:
    X, times, tasks = shared_configs
    queries = np.column_stack([np.full(12, 0.9), X[:12, 1:]])
    log_scores = -np.log(times / times.min(axis=1, keepdims=True))
    descriptors = np.array([0.0, 1.0, 5.0])
    distance = np.abs(descriptors - 0.9) / descriptors.std()
    weight = np.exp(-0.5 * (distance / 0.5) ** 2)
    expected = weight @ log_scores / weight.sum()
    learner = WeightedConsensus((0,), bandwidth=0.5).fit(X, times.ravel(), tasks)
    np.testing.assert_allclose(learner.predict(queries).score, expected, rtol=1e-6)


def test_nearest_task_copies_the_nearest_tasks_scores(shared_configs) -> None:
    X, times, tasks = shared_configs
    queries = np.column_stack([np.full(12, 4.0), X[:12, 1:]])
    score = NearestTask((0,)).fit(X, times.ravel(), tasks).predict(queries).score
    np.testing.assert_allclose(score, np.log(times[2].min() / times[2]), rtol=1e-6, atol=1e-12)


@pytest.fixture
def two_spaces():
    """Tasks 0 and 1 measured 6 configs of one space, task 2 others of another; column 0 is the task."""
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 6, 2))
    absent = np.full((6, 2), np.nan)
    configs = np.vstack([np.hstack([one, absent]), np.hstack([one, absent]), np.hstack([absent, other])])
    tasks = np.repeat([0, 1, 2], 6)
    return np.column_stack([tasks, configs]), rng.lognormal(size=18), tasks


def test_tasks_of_another_space_say_nothing(two_spaces) -> None:
    X, y, tasks = two_spaces
    near_other = X[:6].copy()
    near_other[:, 0] = 2.0  # which lies on the task that says nothing
    log_scores = np.log(y.reshape(3, 6).min(axis=1, keepdims=True) / y.reshape(3, 6))
    curves = TaskCurves((0,), 3).fit(prepare(X, y, tasks))
    assert curves.comparable(near_other).tolist() == [[True, True, False]] * 6
    assert np.isinf(curves.distances_at(near_other)).tolist() == [[False, False, True]] * 6
    np.testing.assert_allclose(curves.log_scores(near_other)[:, 2], 0.0)
    nearest = NearestTask((0,)).fit(X, y, tasks).predict(near_other)
    np.testing.assert_allclose(nearest.score, log_scores[1], atol=1e-12)
    consensus = WeightedConsensus((0,), bandwidth=1e6).fit(X, y, tasks).predict(near_other)
    np.testing.assert_allclose(consensus.score, log_scores[:2].mean(axis=0), rtol=1e-6)


def test_where_no_task_says_anything_all_configs_are_alike(two_spaces) -> None:
    X, y, tasks = two_spaces
    for learner in (NearestTask((0,)), WeightedConsensus((0,))):
        score = learner.fit(X[:12], y[:12], tasks[:12]).predict(X[12:]).score
        assert np.isfinite(score).all()
        assert len(set(score)) == 1


def test_tasks_with_equal_configs_share_a_tree_and_nothing_else(shared_configs) -> None:
    X, times, tasks = shared_configs
    together = TaskCurves((0,), 3).fit(prepare(X, times.ravel(), tasks))
    queries = X + 0.1
    for task in range(3):
        own = tasks == task
        alone = TaskCurves((), 3).fit(prepare(X[own, 1:], times[task], tasks[own]))
        scores = together.log_scores(queries)[:, task]
        np.testing.assert_allclose(scores, alone.log_scores(queries[:, 1:])[:, 0])
        np.testing.assert_allclose(scores, together.log_score_of(task, queries))


def test_curves_interpolate_like_inverse_square_distance_neighbours() -> None:
    X, y, _ = contract_rows()
    X, tasks = X[:, :4], np.zeros(len(X))
    learner = NearestTask((), neighbours=4).fit(X[:80], y[:80], tasks[:80])
    Z = (X - X[:80].mean(axis=0)) / X[:80].std(axis=0)
    with np.errstate(divide="ignore"):
        target = np.maximum(np.log(y[:80].min() / y[:80]), -np.log(64.0))
    reference = KNeighborsRegressor(4, weights=lambda distance: distance**-2.0).fit(Z[:80], target)
    np.testing.assert_allclose(learner.predict(X[80:]).score, reference.predict(Z[80:]), rtol=1e-9)


def test_ridge_agrees_with_scikit_learn() -> None:
    X, y, tasks = contract_rows()
    X = X[:, :4]
    learner = RidgeLearner(alpha=0.01).fit(X, y, tasks)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    training = prepare(X, y, tasks)
    order = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in training.X]
    reference = Ridge(alpha=0.01 * len(X)).fit(Z[order], training.log_score)
    np.testing.assert_allclose(learner.predict(X).score, reference.predict(Z), rtol=1e-9, atol=1e-12)
    ran = np.isfinite(y)
    Z_ran = Ridge(alpha=0.01 * ran.sum()).fit(Z[ran], np.log(y[ran]))
    np.testing.assert_allclose(np.log(learner.predict(X).latency_s), Z_ran.predict(Z), rtol=1e-9)


def test_kernel_ridge_on_all_rows_agrees_with_scikit_learn() -> None:
    X, y, tasks = contract_rows()
    X = X[:, :4]
    learner = KernelRidge(length=0.7, penalty=0.2, landmarks=len(X)).fit(X, y, tasks)
    training = prepare(X, y, tasks)
    scaler = Scaler().fit(X)
    mean = training.clipped_log_latency.mean()
    # The root mean square over four columns is half of the Euclidean distance.
    reference = ReferenceKernelRidge(alpha=0.2, kernel=Matern(length_scale=2 * 0.7, nu=1.5))
    reference.fit(scaler.transform(training.X), training.clipped_log_latency - mean)
    expected = mean + reference.predict(scaler.transform(X))
    np.testing.assert_allclose(np.log(learner.predict(X).latency_s), expected, rtol=1e-5)


def test_fewer_landmarks_come_close_to_all() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.exp(np.sin(X[:, 0]) + 0.5 * X[:, 1])
    tasks = np.zeros(600)
    few, every = (KernelRidge(landmarks=m).fit(X[:500], y[:500], tasks[:500]) for m in (150, 500))
    difference = few.predict(X[500:]).score - every.predict(X[500:]).score
    assert np.abs(difference).mean() < 0.1
    assert np.corrcoef(few.predict(X[500:]).score, -np.log(y[500:]))[0, 1] > 0.97


def test_log_score_is_log_of_best_over_latency_and_clipped_for_failures() -> None:
    y = np.array([4.0, 2.0, np.inf, 8.0, 8.0 * 1000, np.inf])
    training = prepare(np.arange(6.0)[:, None], y, np.array([0, 0, 0, 1, 1, 2]))
    lowest = -np.log(64.0)
    np.testing.assert_allclose(training.log_score, [np.log(0.5), 0.0, lowest, 0.0, lowest, lowest])


def test_scaler_ignores_missing_values_and_columns_that_do_not_vary() -> None:
    X = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, 2.0], [np.nan, 7.0, 4.0]])
    Z = Scaler().fit(X).transform(X)
    np.testing.assert_allclose(Z, [[-1.0, 0.0, 0.0], [1.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    assert Scaler().fit(X).transform(np.array([[2.0, 99.0, 1e9]])).tolist() == [[0.0, 0.0, Scaler.limit]]


def test_random_scores_depend_on_seed_and_row_and_are_spread() -> None:
    X, y, tasks = contract_rows()
    X = np.random.default_rng(0).normal(size=(2000, 5))
    y, tasks = np.ones(2000), np.zeros(2000)
    scores = [RandomLearner(seed).fit(X, y, tasks).predict(X).score for seed in (0, 1)]
    assert abs(np.corrcoef(*scores)[0, 1]) < 0.1
    assert abs(scores[0].mean() - 0.5) < 0.03
    assert len(np.unique(scores[0])) == 2000


def test_xgboost_learns_latency_above_the_baseline() -> None:
    rng = np.random.default_rng(0)
    # Latency is three times a bound that spans six decades; no tree has seen one as large as the query's.
    bound = np.repeat(rng.uniform(-20, 0, size=10), 40)
    X = np.column_stack([bound, rng.normal(size=400)])
    learner = XGBoostLearner(0, rounds=50).fit(X, 3.0 * 2.0**bound, np.arange(400) // 40)
    queries = np.array([[5.0, 0.0], [10.0, 1.0]])
    np.testing.assert_allclose(learner.predict(queries).latency_s, 3.0 * 2.0 ** queries[:, 0], rtol=0.1)
