import numpy as np
import pytest
from scipy.optimize import minimize

from costmodel.features._extract import COLUMNS
from costmodel.learners import KernelRidge, Learner, Prediction, RidgeLearner
from costmodel.learners._random import RandomLearner
from costmodel.learners._stack import Committee, Stack, out_of_fold, simplex_weights
from costmodel.learners.trees._boosted_trees import XGBoostScorer

pytestmark = pytest.mark.white_box


class Memory(Learner):
    """Remembers the rows by column 0; what it never saw has score 0 and latency 1 s."""

    def fit(self, X, y, task_ids):
        self.known_ = {float(key): value for key, value in zip(X[:, 0], y, strict=True)}
        return self

    def predict(self, X):
        latency_s = np.array([self.known_.get(float(key), 1.0) for key in X[:, 0]])
        return Prediction(-np.log(latency_s), latency_s)

    def state(self):
        return {}

    def load_state(self, state):
        return self


@pytest.fixture
def workloads():
    """Six workloads (column 2) of two tasks; column 0 names the row, column 1 rules latency."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(12), 20)
    X = np.column_stack([np.arange(240.0), rng.normal(size=240), tasks // 2])
    return X, np.exp(X[:, 1] + 0.1 * rng.normal(size=240)), tasks


@pytest.mark.parametrize("folds", [2, 4, 50])
def test_out_of_fold_predictions_know_nothing_of_their_group(workloads, folds) -> None:
    X, y, tasks = workloads
    seen = Memory().fit(X, y, tasks).predict(X)
    np.testing.assert_array_equal(seen.latency_s, y)
    unseen = out_of_fold(Memory, X, y, tasks, X[:, 2], folds)
    assert (unseen.latency_s == 1.0).all()


def test_out_of_fold_predictions_are_those_of_a_fit_on_the_other_groups(workloads) -> None:
    X, y, tasks = workloads
    unseen = out_of_fold(RidgeLearner, X, y, tasks, X[:, 2], 50)
    for workload in range(6):
        own = X[:, 2] == workload
        learner = RidgeLearner().fit(X[~own], y[~own], tasks[~own])
        np.testing.assert_array_equal(unseen.score[own], learner.predict(X[own]).score)


def test_out_of_fold_needs_two_groups(workloads) -> None:
    X, y, tasks = workloads
    with pytest.raises(ValueError, match="two folds and groups must be there"):
        out_of_fold(RidgeLearner, X, y, tasks, np.zeros(240), 5)


def test_weights_are_the_best_on_the_simplex() -> None:
    rng = np.random.default_rng(1)
    F = rng.normal(size=(50, 4))
    target = F @ np.array([0.9, 0.6, -0.4, 0.1]) + 0.1 * rng.normal(size=50)
    weights = simplex_weights(F, target)
    reference = minimize(
        lambda w: np.square(F @ w - target).sum(),
        np.full(4, 0.25),
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(weights, reference.x, atol=1e-4)
    assert weights.sum() == pytest.approx(1.0)


def test_a_learner_that_knows_only_what_it_saw_gets_no_weight(workloads) -> None:
    X, y, tasks = workloads
    stack = Stack((Memory(), RidgeLearner()), (2,), folds=3).fit(X, y, tasks)
    assert stack.weights_[0] < 0.1
    assert stack.weights_.sum() == pytest.approx(1.0)


def test_without_folds_log_latencies_are_averaged(workloads) -> None:
    X, y, tasks = workloads
    each = [learner.fit(X, y, tasks).predict(X) for learner in (RidgeLearner(), KernelRidge(landmarks=50))]
    mean = np.sqrt(each[0].latency_s * each[1].latency_s)
    prediction = Stack((RidgeLearner(), KernelRidge(landmarks=50))).fit(X, y, tasks).predict(X)
    np.testing.assert_allclose(prediction.latency_s, mean, rtol=1e-12)
    np.testing.assert_allclose(prediction.score, -np.log(mean), rtol=1e-9)


def test_latency_is_that_of_the_learners_that_predict_it(workloads) -> None:
    X, y, tasks = workloads
    stack = Stack((RandomLearner(), RidgeLearner())).fit(X, y, tasks)
    expected = RidgeLearner().fit(X, y, tasks).predict(X).latency_s
    np.testing.assert_allclose(stack.predict(X).latency_s, expected, rtol=1e-12)
    assert Stack((RandomLearner(),)).fit(X, y, tasks).predict(X).latency_s is None


def test_committees_of_different_seeds_share_no_member():
    seeds = [
        [
            member.seed
            for member in Committee.for_columns(COLUMNS, seed).learners
            if isinstance(member, XGBoostScorer)
        ]
        for seed in range(3)
    ]
    assert len({seed for each in seeds for seed in each}) == sum(map(len, seeds)) == 9


def test_latency_of_a_committee_is_that_of_the_members_that_tell_one():
    committee = Committee.for_columns(COLUMNS, 0)
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, len(COLUMNS))), np.repeat([0, 1, 2], 20)
    y = np.exp(0.3 * X[:, 40] - 9.0)
    committee.fit(X, y, tasks)
    told = [member.predict(X).latency_s for member in committee.learners]
    assert [each is None for each in told] == [False, False, True, True, True]
    np.testing.assert_allclose(committee.predict(X).latency_s, np.sqrt(told[0] * told[1]))
