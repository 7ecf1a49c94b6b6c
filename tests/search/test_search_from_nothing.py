"""Searches that know nothing: what they learn of a function, its failures and its constraints."""

import math

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from costmodel.learners._scaler import Scaler
from costmodel.search import DeclaredSpace, ModelSampler, RandomOrderSampler
from costmodel.search._gaussian_process import GaussianProcess, _loss
from costmodel.search.samplers._from_nothing import FromNothing
from costmodel.search.samplers._history import History
from costmodel.search.samplers._prediction import Feasibility

pytestmark = pytest.mark.white_box
optuna.logging.set_verbosity(optuna.logging.WARNING)


def _wave(X):
    """Depends on two of five features."""
    return np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 3] ** 2


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform(-1.7, 1.7, size=(40, 5))


def test_the_gradient_of_the_density_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    squares = np.square(Z[:, None] - Z[None]).transpose(2, 0, 1) * (5.0 / 3.0)
    theta, mean, std = rng.normal(size=4), np.zeros(4), np.ones(4)
    _, gradient = _loss(theta, squares, y, mean, std)
    for i, step in enumerate(1e-5 * np.eye(4)):
        ahead, behind = (_loss(theta + way * step, squares, y, mean, std)[0] for way in (1, -1))
        assert gradient[i] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4)


def test_what_matters_is_learned(rows):
    process = GaussianProcess.fit_relevance(rows, _wave(rows), Scaler().fit(rows))
    others = [1, 2, 4]
    assert min(process.relevance[[0, 3]]) > 3 * max(process.relevance[others])
    asked = np.random.default_rng(1).uniform(-1.5, 1.5, size=(200, 5))
    mean, std = process.predict(asked)
    alike = GaussianProcess.fit(rows, _wave(rows)).predict(asked)[0]
    error, error_alike = (np.abs(each - _wave(asked)) for each in (mean, alike))
    assert np.median(error) < 0.2 * np.median(error_alike)
    assert (error < 3 * std + 0.05).mean() > 0.9


def test_the_process_is_the_textbook_formula(rows):
    """By an explicit inverse, with the kernel written out, and the covariance of asked rows."""
    y, scaler = _wave(rows), Scaler().fit(rows)
    process = GaussianProcess.fit_relevance(rows, y, scaler)

    def kernel(A, B):
        away = (A[:, None] - B[None]) / scaler.scale_ * process.relevance
        r = np.sqrt(5.0 * np.square(away).mean(axis=2))
        return (1.0 + r + r**2 / 3.0) * np.exp(-r)

    asked = np.random.default_rng(2).uniform(-1.5, 1.5, size=(7, 5))
    inverse = np.linalg.inv(kernel(rows, rows) + process.nugget * np.eye(40))
    known = kernel(asked, rows)
    centre = inverse.sum(axis=0) @ y / inverse.sum()
    mean, std = process.predict(asked)
    covariance = process.variance * (kernel(asked, asked) - known @ inverse @ known.T)
    np.testing.assert_allclose(mean, centre + known @ inverse @ (y - centre), atol=1e-5)
    np.testing.assert_allclose(process.predict_mean(asked), mean)
    np.testing.assert_allclose(process.covariance(asked), covariance, atol=1e-5)
    np.testing.assert_allclose(std**2, np.diag(covariance), atol=1e-5)


def test_rows_that_are_all_equal_are_learned_from():
    X = np.random.default_rng(0).normal(size=(5, 2))
    model = FromNothing(X)
    told = model.adapt(X, np.full(5, 0.1))
    np.testing.assert_allclose(told.predict(X).latency_s, 0.1)
    assert model.adapt(X, np.full(5, np.inf)).predict(X).latency_s is None


def test_the_probability_of_a_constraint_is_known_where_it_was_told(rows):
    excess = np.column_stack([rows[:, 0] * 1e6, np.where(rows[:, 1] > 0, np.nan, rows[:, 1])])
    likely = np.exp(Feasibility.of(rows, excess, Scaler().fit(rows)).log_probability(rows))
    told = rows[:, 1] <= 0
    assert likely[rows[:, 0] > 0.3].max() < 0.1
    assert likely[told & (rows[:, 0] < -0.3)].min() > 0.5


def _parameters(unit):
    return {
        "rate": FloatDistribution(unit * 2.0**-17, unit * 2.0**-3, log=True),
        "gap": FloatDistribution(0.0, 8.0 * unit),
        "tile": CategoricalDistribution([unit * 2.0**-6, unit * 2.0**-5, unit * 2.0**-3]),
        "cells": IntDistribution(unit, 64 * unit, step=unit),
    }


def _of_unit(config, unit):
    rate, gap = math.log2(config["rate"] / unit), config["gap"] / unit
    return math.exp(
        0.1 * (rate + 9) ** 2 + 0.3 * (gap - 3) ** 2 + config["tile"] / unit - config["cells"] / unit / 99
    )


def test_the_same_is_proposed_in_another_unit():
    """A power of two, so that not a bit is lost: metres or micrometres are searched alike."""
    tried = []
    for unit in (1, 2**20):
        space = DeclaredSpace("unit", _parameters(unit))
        study = optuna.create_study(sampler=ModelSampler(space, seed=1))
        study.optimize(lambda t, s=space, u=unit: _of_unit(s.suggest(t).decisions, u), n_trials=14)
        tried.append([[value / unit for value in trial.params.values()] for trial in study.trials])
    np.testing.assert_allclose(tried[0], tried[1], rtol=1e-6)


_DISC = DeclaredSpace("disc", {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)})


def _branin(x, y):
    return (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2 + 9.6 * math.cos(x) + 12


def _outside(x, y):
    return (x - 2.5) ** 2 + (y - 7.5) ** 2 - 30.0


def test_constraints_that_trials_were_told_are_kept():
    def told(trial):
        x, y = (_DISC.suggest(trial).decisions[name] for name in "xy")
        trial.set_constraint("disc", _outside(x, y))
        return _branin(x, y)

    study = optuna.create_study(sampler=ModelSampler(_DISC))
    study.optimize(told, n_trials=32)
    grid = np.linspace(-5, 10, 301), np.linspace(0, 15, 301)
    best = min(_branin(x, y) for x in grid[0] for y in grid[1] if _outside(x, y) <= 0)
    broken = [trial.constraints["disc"] > 0 for trial in study.trials]
    assert sum(broken[-16:]) <= 4
    assert min(t.value for t, bad in zip(study.trials, broken, strict=True) if not bad) < 1.05 * best


def test_several_constraints_are_kept_by_a_batch_too():
    study = optuna.create_study(sampler=ModelSampler(_DISC))
    broken = []
    for _ in range(8):
        trials = [study.ask(_DISC.distributions) for _ in range(4)]
        assert len({tuple(trial.params.values()) for trial in trials}) == 4
        for trial in trials:
            x, y = trial.params["x"], trial.params["y"]
            trial.set_constraint("right", x - 2.0)
            trial.set_constraint("low", 9.0 - y)
            study.tell(trial, 21.0 + x - y)
            broken.append(x > 2.0 or y < 9.0)
    assert sum(broken[-12:]) <= 3 < sum(broken)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_constraints_of_another_sampler_are_read():
    """Those of a ``constraints_func`` are kept in another form."""
    study = optuna.create_study(sampler=TPESampler(seed=0, constraints_func=lambda t: [t.params["x"] - 2.0]))
    study.optimize(lambda t: 1.0 + (_DISC.suggest(t).decisions["x"] - 4.0) ** 2, n_trials=12)
    history = History.of(study, _DISC)
    feasible = [t.value for t in study.trials if t.params["x"] <= 2.0]
    np.testing.assert_allclose(history.excess[:, 0], [t.params["x"] - 2.0 for t in study.trials])
    assert history.best_s.tolist() == [min(feasible)]
    assert history.fastest(1)[0].decisions["x"] <= 2.0


def test_constraints_count_with_a_model_too(pool, oracle, latencies):
    """One that knows all latencies is kept from the fastest, which break a constraint."""
    latency_of = dict(zip([c.candidate_id for c in pool.candidates], latencies, strict=True))
    limit = float(np.median(latencies[np.isfinite(latencies)]))
    study = optuna.create_study(sampler=ModelSampler(pool, oracle, explore_every=0))
    broken = []
    for _ in range(20):
        trial = study.ask(pool.distributions)
        latency_s = latency_of[pool.candidate(pool.suggest(trial)).candidate_id]
        trial.set_constraint("too fast", 1.0 if latency_s < limit else -1.0)
        broken.append(latency_s < limit)
        study.tell(
            trial,
            latency_s if np.isfinite(latency_s) else None,
            state=None if np.isfinite(latency_s) else TrialState.FAIL,
        )
    assert broken[0]
    assert sum(broken) < 20


def test_where_trials_fail_is_learned():
    space = DeclaredSpace("half", {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(3)})
    study = optuna.create_study(sampler=ModelSampler(space))

    def told(trial):
        config = space.suggest(trial).decisions
        if config["x0"] + config["x1"] > 0.9:
            raise RuntimeError("out of memory")
        return 1.0 + 4.0 * (config["x0"] - 0.3) ** 2 + 4.0 * (config["x1"] - 0.3) ** 2 + config["x2"]

    study.optimize(told, n_trials=30, catch=(RuntimeError,))
    failed = [trial.state is TrialState.FAIL for trial in study.trials]
    assert study.best_value < 1.05
    assert sum(failed[6:20]) <= 2


def test_a_search_whose_trials_all_fail_goes_on_elsewhere():
    space = DeclaredSpace("dead", {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)})
    study = optuna.create_study(sampler=ModelSampler(space))
    points = []
    for _ in range(12):
        trial = study.ask(space.distributions)
        points.append([trial.params["x"], trial.params["y"]])
        study.tell(trial, state=TrialState.FAIL)
    gaps = np.sqrt(np.square(np.array(points)[:, None] - points).sum(axis=2)) + np.eye(12)
    assert gaps.min() > 0.05


def test_of_many_trials_the_fastest_and_some_others_are_learned_from(monkeypatch):
    space = DeclaredSpace("line", {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)})
    sampler, seen = ModelSampler(space), []
    adapt = FromNothing.adapt
    monkeypatch.setattr(FromNothing, "adapt", lambda self, X, y: seen.append(y) or adapt(self, X, y))
    study = optuna.create_study(sampler=sampler)
    values = 1.0 + np.random.default_rng(0).random(700)
    configs = space.draw(700, np.random.default_rng(0)).configs
    for count, (config, value) in enumerate(zip(configs, values, strict=True), start=1):
        params = space.params(config)
        study.add_trial(
            optuna.create_trial(params=params, distributions=space.distributions, value=float(value))
        )
        if count == 500:
            sampler.scored(study)
    sampler.scored(study)
    assert [len(y) for y in seen] == [500, 500]
    np.testing.assert_array_equal(seen[0], values[:500])
    assert set(np.sort(values)[:250]) <= set(seen[1])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_function_of_six_parameters_is_solved(seed):
    """Hartmann's, on a grid of 262,144, of which 40 values are drawn at random 0.2 of the depth."""
    alpha = np.array([1.0, 1.2, 3.0, 3.2])
    A = np.array(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    )
    P = 1e-4 * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    space = DeclaredSpace("hartmann", {f"x{i}": IntDistribution(0, 7) for i in range(6)})

    def depth(config):
        x = np.array(list(config.decisions.values())) / 7
        return float(alpha @ np.exp(-(A * (x - P) ** 2).sum(axis=1)))

    found = {}
    for make in (ModelSampler, RandomOrderSampler):
        study = optuna.create_study(sampler=make(space, seed=seed))
        study.optimize(lambda t: math.exp(-depth(space.suggest(t))), n_trials=40)
        found[make] = -math.log(study.best_value)
    assert found[ModelSampler] > 2.5
    assert found[ModelSampler] > 1.5 * found[RandomOrderSampler]
