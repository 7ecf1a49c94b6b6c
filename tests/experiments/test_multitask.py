"""Families are as related as they say, and rules that were tried work."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from experiment_folder import found_beside
from scipy.stats import spearmanr

from costmodel.learners import KernelRidge
from costmodel.learners._source_rules import NearestTask
from costmodel.transfer.models._residual import Residual

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "multitask"
MODULES = ("families", "processes", "errors", "searches", "tried")


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
