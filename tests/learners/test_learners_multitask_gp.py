import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from costmodel.learners import MultitaskGaussianProcess
from costmodel.learners.multitask import Coregionalisation, negative_log_likelihood


@pytest.fixture
def one_task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    return X, np.exp(np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=40)), np.zeros(40)


def make_model(rng, tasks=3, processes=2) -> Coregionalisation:
    return Coregionalisation(
        lengths=rng.uniform(0.5, 2.0, size=processes),
        mixing=rng.normal(size=(processes, tasks)),
        own=rng.uniform(0.1, 1.0, size=(processes, tasks)),
        noise=rng.uniform(0.05, 0.2, size=tasks),
    )


def test_covariance_is_that_of_the_formula_term_by_term() -> None:
    rng = np.random.default_rng(0)
    model, X, tasks = make_model(rng), rng.normal(size=(7, 2)), np.array([0, 0, 1, 1, 1, 2, 2])
    expected = np.zeros((7, 7))
    for i in range(7):
        for j in range(7):
            squared = ((X[i] - X[j]) ** 2).sum()
            s, t = tasks[i], tasks[j]
            for q in range(2):
                shared = model.mixing[q, s] * model.mixing[q, t] + (s == t) * model.own[q, s]
                expected[i, j] += shared * np.exp(-squared / (2 * model.lengths[q] ** 2))
            expected[i, j] += (i == j) * model.noise[s]
    D = np.square(X[:, None] - X).sum(axis=2)
    np.testing.assert_allclose(model.covariance(D, tasks), expected, rtol=1e-12)


def test_gradient_of_the_likelihood_agrees_with_differences() -> None:
    rng = np.random.default_rng(1)
    X, tasks, values = rng.normal(size=(12, 2)), np.repeat([0, 1, 2], 4), rng.normal(size=12)
    D = np.square(X[:, None] - X).sum(axis=2)
    parameters = make_model(rng).pack()
    _, gradient = negative_log_likelihood(parameters, 2, D, tasks, values)
    differences = approx_fprime(
        parameters, lambda p: negative_log_likelihood(p, 2, D, tasks, values)[0], epsilon=1e-6
    )
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)


def test_one_task_is_scikit_learns_gaussian_process(one_task) -> None:
    X, y, tasks = one_task
    learner = MultitaskGaussianProcess((), processes=1, rows=40, iterations=200).fit(
        X[:30], y[:30], tasks[:30]
    )
    Z = learner.scaler_.transform(X)
    level = np.log(y[:30]).mean()
    values = (np.log(y[:30]) - level) / np.log(y[:30]).std()
    # The root mean square over two columns is the Euclidean distance / sqrt(2).
    kernel = ConstantKernel() * RBF(1.0) + WhiteKernel(0.1)
    free = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=2, random_state=0)
    free.fit(Z[:30], values)
    model = learner.model_
    scale = float(model.mixing[0, 0] ** 2 + model.own[0, 0])
    same = ConstantKernel(scale) * RBF(model.lengths[0] * np.sqrt(2.0)) + WhiteKernel(model.noise[0])
    fixed = GaussianProcessRegressor(same, alpha=0.0, optimizer=None).fit(Z[:30], values)
    assert fixed.log_marginal_likelihood_value_ == pytest.approx(
        free.log_marginal_likelihood_value_, abs=0.02
    )
    expected = level + np.log(y[:30]).std() * fixed.predict(Z[30:])
    np.testing.assert_allclose(np.log(learner.predict(X[30:]).latency_s), expected, rtol=1e-6)


def test_a_source_task_is_predicted_by_the_dense_posterior() -> None:
    rng = np.random.default_rng(2)
    tasks = np.repeat([0, 1, 2], 10)
    X = np.column_stack([tasks, rng.normal(size=(30, 2))])
    y = np.exp(np.sin(X[:, 1]) + 0.3 * tasks * X[:, 2])
    learner = MultitaskGaussianProcess((0,), iterations=15).fit(X, y, tasks)
    queries = X[[0, 12, 25]] + [0.0, 0.3, -0.2]
    rows = np.vstack([learner.inputs_, learner.scaler_.transform(queries[:, 1:])])
    D = np.square(rows[:, None] - rows).sum(axis=2) / 2
    joint = learner.model_.covariance(D, np.append(learner.tasks_, [0, 1, 2]))
    # Rows are kept in order of task and columns, whatever order they came in.
    order = np.lexsort([y, *X.T[::-1], tasks])
    levels = np.array([np.log(y[tasks == task]).mean() for task in range(3)])
    residual = (np.log(y) - levels[tasks])[order]
    expected = levels + joint[30:, :30] @ np.linalg.solve(joint[:30, :30], residual)
    np.testing.assert_allclose(np.log(learner.predict(queries).latency_s), expected, rtol=1e-6)


def test_a_new_task_borrows_from_the_tasks_that_it_resembles() -> None:
    rng = np.random.default_rng(3)
    place = np.repeat([0.0, 0.1, 5.0, 5.1], 30)
    X = np.column_stack([place, rng.normal(size=(120, 1))])
    # Tasks on the left like what those on the right dislike.
    slope = np.where(place < 1.0, 1.0, -1.0)
    y = np.exp(slope * X[:, 1] + np.where(place < 1.0, 0.0, 3.0))
    learner = MultitaskGaussianProcess((0,), bandwidth=0.5).fit(X, y, place)
    at = np.linspace(-1.5, 1.5, 9)
    for where, sign, level in ((0.05, 1.0, 0.0), (5.05, -1.0, 3.0)):
        queries = np.column_stack([np.full(9, where), at])
        expected = level + sign * at
        assert np.abs(np.log(learner.predict(queries).latency_s) - expected).max() < 0.4


def test_of_many_rows_every_task_gives_a_fair_share() -> None:
    rng = np.random.default_rng(4)
    tasks = np.repeat(np.arange(50), [20 + 2 * i for i in range(50)])
    X = np.column_stack([tasks, rng.normal(size=(len(tasks), 2))])
    y = np.exp(X[:, 1])
    learner = MultitaskGaussianProcess((0,), rows=80, tasks=10, iterations=2).fit(X, y, tasks)
    assert learner.inputs_.shape == (80, 2)
    assert np.bincount(learner.tasks_).tolist() == [8] * 10
