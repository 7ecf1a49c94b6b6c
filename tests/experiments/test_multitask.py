"""Processes agree with scikit-learn, families are as related as they say, and rules that were tried work."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from experiment_folder import found_beside
from scipy.optimize import approx_fprime
from scipy.stats import spearmanr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from costmodel.learners import KernelRidge
from costmodel.learners._source_rules import NearestTask
from costmodel.transfer.models._residual import Residual

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "multitask"
MODULES = ("coregionalisation", "families", "processes", "errors", "searches", "tried")


@pytest.fixture
def coregionalisation() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import coregionalisation

        yield coregionalisation


@pytest.fixture
def processes() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import processes

        yield processes


@pytest.fixture
def families() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import families

        yield families


@pytest.fixture
def searches() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import searches

        yield searches


@pytest.fixture
def tried() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        import tried

        yield tried


def make_model(coregionalisation: ModuleType, rng, tasks=3, processes=2):
    return coregionalisation.Coregionalisation(
        lengths=rng.uniform(0.5, 2.0, size=processes),
        mixing=rng.normal(size=(processes, tasks)),
        own=rng.uniform(0.1, 1.0, size=(processes, tasks)),
        noise=rng.uniform(0.05, 0.2, size=tasks),
    )


def test_covariance_is_that_of_the_formula_term_by_term(coregionalisation: ModuleType) -> None:
    rng = np.random.default_rng(0)
    model, X, tasks = (
        make_model(coregionalisation, rng),
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


def test_gradient_of_the_likelihood_agrees_with_differences(coregionalisation: ModuleType) -> None:
    rng = np.random.default_rng(1)
    X, tasks, values = rng.normal(size=(12, 2)), np.repeat([0, 1, 2], 4), rng.normal(size=12)
    D = np.square(X[:, None] - X).sum(axis=2)
    parameters = make_model(coregionalisation, rng).pack()
    _, gradient = coregionalisation.negative_log_likelihood(parameters, 2, D, tasks, values)
    differences = approx_fprime(
        parameters,
        lambda p: coregionalisation.negative_log_likelihood(p, 2, D, tasks, values)[0],
        epsilon=1e-6,
    )
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)


def test_one_process_has_scikit_learns_posterior(processes: ModuleType) -> None:
    rng = np.random.default_rng(0)
    Z, asked = rng.normal(size=(25, 2)), rng.normal(size=(6, 2))
    values = 3.0 + np.sin(Z[:, 0]) + 0.3 * Z[:, 1]
    fitted = processes.Processes(Z, values, np.zeros(25, dtype=np.intp), processes.Settings(latent=1))
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


def test_coregionalised_processes_learn_from_tasks_that_are_alike(processes: ModuleType) -> None:
    rng = np.random.default_rng(1)
    Z, tasks = rng.uniform(-2.0, 2.0, size=(60, 1)), np.repeat([0, 1, 2], [28, 28, 4])
    values = np.sin(2.0 * Z[:, 0]) + tasks
    asked = np.linspace(-1.5, 1.5, 20)[:, None]
    joint = processes.Processes(Z, values, tasks, processes.Settings())
    alone = processes.Processes(Z[56:], values[56:], tasks[56:] - 2, processes.Settings())
    truth = np.sin(2.0 * asked[:, 0]) + 2.0
    # The level of a task is the mean of its rows, here of four, so shapes are compared.
    errors = [
        np.abs((said - said.mean()) - (truth - truth.mean())).mean()
        for said in (joint.mean(asked, 2), alone.mean(asked, 0))
    ]
    assert errors[0] < 0.1
    assert errors[1] > 0.3


def test_gptunes_demonstration_is_its_formula(families: ModuleType) -> None:
    family = families.gptune_demo()
    x, value = family.X[2][7, 2], np.log(family.y[2][7])
    waves = np.sin(6.0 * np.pi * x) + np.sin(18.0 * np.pi * x) + np.sin(54.0 * np.pi * x)
    assert value == pytest.approx(1.0 + np.exp(-((x + 1.0) ** 2)) * np.cos(2.0 * np.pi * x) * waves)
    assert [X[0, 0] for X in family.X] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_families_are_as_related_as_they_say(families: ModuleType) -> None:
    def correlations(family):
        return np.corrcoef(np.log(family.y))[np.triu_indices(len(family.y), 1)]

    mixed = families.mixtures()
    singular = np.linalg.svd(np.log(mixed.y), compute_uv=False)
    assert singular[2] < 1e-9 * singular[1]
    branin = families.branin()
    assert correlations(branin).min() > 0.5
    assert np.abs(correlations(families.latencies_permuted(branin))).max() < 0.3
    assert np.linalg.matrix_rank(np.log(families.independent().y)) == 6


def test_a_search_measures_what_is_near_the_best_and_stops(searches: ModuleType) -> None:
    import families

    family = families.branin()
    found = list(searches.searched(family, "nearest-task", 0, searches.Limits(40, 30), misled=False))
    assert [each["target"] for each in found] == [1, 5]
    y, X = family.y[1], family.X[1]
    alone = searches.FromScratch().fit(X, y, np.zeros(len(y)))
    search = partial(searches.search_recorded, alone, X, y, near=1.05, most=12)
    assert search(first=[3, y.argmin()]).tolist() == [3, y.argmin()]
    order = search(first=[3, 4])
    assert order[:2].tolist() == [3, 4]
    assert len(set(order.tolist())) == len(order) <= 12
    assert (y[order[:-1]] > 1.05 * y.min()).all()


def related(reverse: tuple[int, ...] = ()):
    """Twelve tasks whose best config moves with the descriptor in column 0; X, y and task ids."""
    rng = np.random.default_rng(0)
    t = np.repeat(np.linspace(-1, 1, 12), 60)
    config = np.tile(rng.uniform(-1.5, 1.5, size=(60, 2)), (12, 1))
    distance = (config[:, 0] - 0.5 * t) ** 2 + (config[:, 1] + t) ** 2
    number = np.repeat(np.arange(12), 60)
    sign = np.where(np.isin(number, reverse), -1.0, 1.0)
    y = 1e-5 * np.exp(sign * distance + 0.02 * rng.normal(size=len(t)))
    return np.column_stack([t, config]), y, number


def without(X, y, tasks, task):
    known = tasks != task
    return (X[known], y[known], tasks[known]), (X[~known], y[~known])


def test_a_joined_task_learns_what_is_special_about_the_target(tried: ModuleType) -> None:
    sources, (target_X, target_y) = without(*related(), 6)
    slow = np.where(target_X[:, 1] > 0.5, 8.0, 1.0)
    model = tried.Pooled(KernelRidge(), copies=60).fit(*sources)
    seen = np.arange(20)
    before = spearmanr(model.predict(target_X).score, -target_y * slow).statistic
    adapted = model.adapt(target_X[seen], (target_y * slow)[seen]).predict(target_X)
    assert spearmanr(adapted.score, -target_y * slow).statistic > before + 0.1


def test_the_optimum_of_a_new_task_is_foretold(tried: ModuleType) -> None:
    sources, (target_X, target_y) = without(*related(), 10)
    foretold = tried.PredictedOptimum((0,)).fit(*sources).predict(target_X).score
    nearest = np.argmin(np.square(target_X[:, 1:] - [0.5 * target_X[0, 0], -target_X[0, 0]]).sum(axis=1))
    assert np.argsort(-foretold).tolist().index(int(nearest)) < 6
    assert spearmanr(foretold, -target_y).statistic > 0.9


def test_similar_sources_are_the_near_ones_then_those_that_agree(tried: ModuleType) -> None:
    sources, (target_X, target_y) = without(*related(reverse=(5, 7)), 6)
    model = tried.SimilarSources(Residual(NearestTask((0,))), (0,), k=1).fit(*sources)
    # Neighbours of task 6 are 5 and 7, which are upside down.
    assert spearmanr(model.predict(target_X).score, -target_y).statistic < -0.5
    adapted = model.adapt(target_X[:20], target_y[:20]).predict(target_X).score
    assert spearmanr(adapted, -target_y).statistic > 0.8
