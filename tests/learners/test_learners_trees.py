import numpy as np
import pytest
import xgboost
from scipy.stats import spearmanr
from sklearn.ensemble import ExtraTreesRegressor

from costmodel.learners import RandomForestLearner, XGBoostLearner, prepare
from costmodel.learners.trees._boosted_trees import XGBoostRanker, XGBoostScorer
from costmodel.learners.trees._ubjson import read_ubjson
from costmodel.testing import contract_rows

pytestmark = pytest.mark.white_box


def as_trees_see(X: np.ndarray) -> np.ndarray:
    """float32, and what is missing below everything else."""
    return np.where(np.isnan(X), -1e9, X).astype(np.float32)


@pytest.mark.parametrize("rows", [20_000, 60])
def test_forest_predicts_what_scikit_learn_does(rows) -> None:
    X, y, tasks = contract_rows()
    learner = RandomForestLearner(1, trees=7, min_leaf=2, column_share=0.6, rows=rows, seed=3).fit(
        X, y, tasks
    )
    training = prepare(X, y, tasks)
    above = training.clipped_log_latency - training.X[:, 1] * np.log(2.0)
    reference = ExtraTreesRegressor(
        7,
        min_samples_leaf=2,
        max_features=0.6,
        bootstrap=rows < len(X),
        max_samples=rows if rows < len(X) else None,
        random_state=3,
    ).fit(as_trees_see(training.X), above)
    queries = np.vstack([X, contract_rows(5)[0]])
    expected = reference.predict(as_trees_see(queries)) + queries[:, 1] * np.log(2.0)
    np.testing.assert_allclose(np.log(learner.predict(queries).latency_s), expected, rtol=1e-12)


def test_forest_blocks_do_not_show() -> None:
    X, y, tasks = contract_rows()
    learner = RandomForestLearner(trees=3).fit(X, y, tasks)
    many = np.resize(np.arange(len(X)), 2500)  # more than go down a tree at once
    np.testing.assert_array_equal(learner.predict(X[many]).score, learner.predict(X).score[many])


def test_xgboost_predicts_in_place_what_a_matrix_does() -> None:
    X, y, tasks = contract_rows()
    learner = XGBoostLearner(rounds=30).fit(X, y, tasks)
    expected = learner.booster_.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(np.log(learner.predict(X).latency_s), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "learner", [XGBoostLearner(1, rounds=30), XGBoostRanker(rounds=30), XGBoostScorer(rounds=30)]
)
def test_what_is_stored_leaves_out_what_only_growing_needs(learner) -> None:
    X, y, tasks = contract_rows()
    learner.fit(X, y, tasks)
    state = learner.state()
    trees = read_ubjson(state["booster"])["learner"]["gradient_booster"]["model"]["trees"]
    assert len(trees) == 30
    assert not any(tree[name].any() for tree in trees for name in ("loss_changes", "base_weights"))
    assert all(tree["sum_hessian"].all() for tree in trees)
    loaded = type(learner)().load_state(state)
    np.testing.assert_array_equal(loaded._margin(X), learner._margin(X))
    np.testing.assert_array_equal(loaded.contributions(X), learner.contributions(X))


def test_contributions_add_up_to_what_the_trees_predict() -> None:
    X, y, tasks = contract_rows()
    for learner, baseline in ((XGBoostLearner(1, rounds=30), X[:, 1] * np.log(2.0)), (XGBoostRanker(), 0.0)):
        learner.fit(X, y, tasks)
        added = learner.contributions(X)
        assert added.shape == (len(X), X.shape[1] + 1)
        prediction = learner.predict(X)
        told = prediction.score if prediction.latency_s is None else np.log(prediction.latency_s)
        np.testing.assert_allclose(added.sum(axis=1) + baseline, told, atol=1e-4)


def test_contribution_of_a_column_is_its_own_term_of_a_sum() -> None:
    """Trees of depth 1 are a sum of functions of one column each, whose Shapley values are these functions.

    Up to a constant, which makes them 0 in the mean over what was learned from.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = np.exp(2.0 * X[:, 0] + np.sin(6.0 * X[:, 1]))
    learner = XGBoostLearner(rounds=60, depth=1, column_share=1.0).fit(X, y, np.zeros(400))
    added = learner.contributions(X)
    for column in (0, 1):
        alone = np.full_like(X, 0.5)
        alone[:, column] = X[:, column]
        term = np.log(learner.predict(alone).latency_s)
        np.testing.assert_allclose(added[:, column], term - term.mean(), atol=1e-3)


def test_ranker_orders_within_tasks_whatever_their_size() -> None:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(20), 30)
    X = rng.normal(size=(600, 3))
    effort = X[:, 0] + 0.5 * X[:, 1] ** 2
    y = np.exp(0.5 * effort + rng.uniform(-10, 10, size=20)[tasks])
    known = tasks < 15
    learner = XGBoostRanker(rounds=80).fit(X[known], y[known], tasks[known])
    prediction = learner.predict(X[~known])
    assert prediction.latency_s is None
    for task in range(15, 20):
        own = tasks[~known] == task
        assert spearmanr(prediction.score[own], -y[~known][own]).statistic > 0.85


def test_scorer_predicts_scores_less_the_mean_of_each_task() -> None:
    X, y, tasks = contract_rows()
    rows = prepare(X, y, tasks)
    score = np.exp(rows.log_score)
    mean = np.bincount(rows.tasks, score) / np.bincount(rows.tasks)
    learner = XGBoostScorer(rounds=400, learning_rate=0.3, column_share=1.0, min_child_weight=0.0)
    prediction = learner.fit(X, y, tasks).predict(rows.X)
    assert prediction.latency_s is None
    np.testing.assert_allclose(prediction.score, score - mean[rows.tasks], atol=0.02)


def test_scorer_learns_as_much_from_each_task_whatever_its_latency_and_size() -> None:
    X, y, tasks = contract_rows()
    expected = XGBoostScorer(rounds=20).fit(X, y, tasks).predict(X).score
    longer = np.where(tasks == "task 1", 1000.0 * y, y)
    np.testing.assert_allclose(
        XGBoostScorer(rounds=20).fit(X, longer, tasks).predict(X).score, expected, atol=1e-5
    )
    often = np.repeat(np.arange(len(X)), np.where(tasks == "task 1", 3, 1))
    rows = prepare(X[often], y[often], tasks[often])
    weights = np.bincount(rows.tasks, XGBoostScorer()._labels(rows)["weight"])
    np.testing.assert_allclose(weights, len(often) / 4)
