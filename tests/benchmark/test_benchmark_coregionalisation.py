"""Coregionalised processes agree with their formula and scikit-learn, and learn from tasks that are alike."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from costmodel.benchmark.entries._coregionalisation import (
    Coregionalisation,
    Processes,
    Settings,
    negative_log_likelihood,
)

pytestmark = pytest.mark.white_box


def make_model(rng, tasks=3, processes=2):
    return Coregionalisation(
        lengths=rng.uniform(0.5, 2.0, size=processes),
        mixing=rng.normal(size=(processes, tasks)),
        own=rng.uniform(0.1, 1.0, size=(processes, tasks)),
        noise=rng.uniform(0.05, 0.2, size=tasks),
    )


def test_covariance_is_that_of_the_formula_term_by_term() -> None:
    rng = np.random.default_rng(0)
    model, X, tasks = (
        make_model(rng),
        rng.normal(size=(7, 2)),
        np.array([0, 0, 1, 1, 1, 2, 2]),
    )
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
        parameters,
        lambda p: negative_log_likelihood(p, 2, D, tasks, values)[0],
        epsilon=1e-6,
    )
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)


def test_one_process_has_scikit_learns_posterior() -> None:
    rng = np.random.default_rng(0)
    Z, asked = rng.normal(size=(25, 2)), rng.normal(size=(6, 2))
    values = 3.0 + np.sin(Z[:, 0]) + 0.3 * Z[:, 1]
    fitted = Processes(Z, values, np.zeros(25, dtype=np.intp), Settings(latent=1))
    model, scale = fitted.model, fitted.deviation**2
    kernel = ConstantKernel(scale * (model.mixing[0, 0] ** 2 + model.own[0, 0])) * RBF(
        model.lengths[0] * np.sqrt(2.0)
    )
    alpha = np.full(25, scale * model.noise[0])
    reference = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(Z, values - values.mean())
    mean, covariance = fitted.posterior(asked, 0)
    expected, expected_covariance = reference.predict(asked, return_cov=True)
    np.testing.assert_allclose(mean, values.mean() + expected, rtol=1e-6)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-8)
    np.testing.assert_allclose(fitted.mean(asked, 0), mean)


def test_coregionalised_processes_learn_from_tasks_that_are_alike() -> None:
    rng = np.random.default_rng(1)
    Z, tasks = rng.uniform(-2.0, 2.0, size=(60, 1)), np.repeat([0, 1, 2], [28, 28, 4])
    values = np.sin(2.0 * Z[:, 0]) + tasks
    asked = np.linspace(-1.5, 1.5, 20)[:, None]
    joint = Processes(Z, values, tasks, Settings())
    alone = Processes(Z[56:], values[56:], tasks[56:] - 2, Settings())
    truth = np.sin(2.0 * asked[:, 0]) + 2.0
    # The level of a task is the mean of its rows, here of four, so shapes are compared.
    errors = [
        np.abs((said - said.mean()) - (truth - truth.mean())).mean()
        for said in (joint.mean(asked, 2), alone.mean(asked, 0))
    ]
    assert errors[0] < 0.1
    assert errors[1] > 0.3
