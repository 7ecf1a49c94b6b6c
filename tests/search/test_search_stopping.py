"""Ending a search: expected improvement against simulation, and the rules that follow from it."""

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution

from costmodel.collector import ReplayRunner
from costmodel.learners import Prediction
from costmodel.search import DeclaredSpace, ModelSampler, RandomOrderSampler, StopGain, tune
from costmodel.search._acquisition import expected_improvement, improvement_of_posterior
from costmodel.search._objective import SearchGoal
from costmodel.testing import landscape_platform

pytestmark = pytest.mark.white_box

optuna.logging.set_verbosity(optuna.logging.WARNING)


class Normal:
    """A posterior with given means and covariances."""

    def __init__(self, mean, covariance):
        self.mean, self.covariance = np.array(mean), np.array(covariance)

    def predict(self, X):
        return Prediction(-self.mean)

    def std(self, X):
        return np.sqrt(np.diag(self.covariance))

    def posterior(self, X):
        return self.mean, self.covariance


def test_expected_improvement_is_that_of_simulated_latencies():
    mean, sd = np.array([-1.0, -0.9, 0.5]), np.array([0.01, 0.3, 0.2])
    drawn = np.random.default_rng(0).normal(mean, sd, size=(400_000, 3))
    simulated = np.maximum(np.log(0.35) - drawn, 0.0).mean(axis=0)
    np.testing.assert_allclose(expected_improvement(np.log(0.35) - mean, sd), simulated, atol=2e-3)
    found = improvement_of_posterior(Normal(mean, np.diag(sd**2)), np.zeros((3, 1)), 0.35)
    np.testing.assert_allclose(found, simulated, atol=2e-3)


def test_no_improvement_is_expected_below_nothing():
    assert (expected_improvement(np.array([-50.0, -1e-3]), np.array([1.0, 1e-9])) >= 0.0).all()


def _space():
    return DeclaredSpace("bowl", {"a": IntDistribution(0, 20), "b": IntDistribution(0, 20)})


def _latency_s(space, trial):
    config = space.suggest(trial).decisions
    return 1e-3 * (1.0 + 0.01 * (config["a"] - 5) ** 2 + 0.01 * (config["b"] - 15) ** 2)


def test_a_search_ends_soon_after_the_best_was_found():
    space = _space()
    sampler = ModelSampler(space)
    study = optuna.create_study(sampler=sampler)
    stop = StopGain(sampler, 0.01)
    study.optimize(lambda t: _latency_s(space, t), n_trials=200, callbacks=[stop])
    assert 8 <= len(study.trials) < 100
    assert study.best_value < 1.03e-3


def test_a_smaller_gain_ends_later():
    counts = []
    for gain in (0.2, 0.02, 0.002):
        space = _space()
        sampler = ModelSampler(space)
        study = optuna.create_study(sampler=sampler)
        stop = StopGain(sampler, gain)
        study.optimize(lambda t, space=space: _latency_s(space, t), n_trials=60, callbacks=[stop])
        counts.append(len(study.trials))
    assert counts[0] < counts[-1]
    assert counts == sorted(counts)


def test_a_model_that_cannot_tell_ends_after_measurements_without_gain(pool, oracle, latencies):
    sampler = ModelSampler(pool, oracle, explore_every=0)
    study = optuna.create_study(sampler=sampler)
    stop = StopGain(sampler, 0.01, window=3, patience=5)
    by_id = dict(zip([c.config.config_id for c in pool.candidates], latencies, strict=True))
    study.optimize(lambda t: by_id[pool.suggest(t).config_id], n_trials=40, callbacks=[stop])
    assert len(study.trials) == 6  # the first was the best, and five did not gain on it


def test_nothing_ends_while_all_fail(pool, oracle):
    sampler = ModelSampler(pool, oracle)
    study = optuna.create_study(sampler=sampler)
    for _ in range(12):
        study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
    assert not StopGain(sampler, 0.5).is_reached(study)


def test_tune_ends_by_itself_and_needs_a_model_for_it(records, pool):
    all_of_it = tune(ReplayRunner(records), ModelSampler(pool), len(pool))
    stopped = tune(ReplayRunner(records), ModelSampler(pool), len(pool), stop_gain=0.05)
    assert 8 <= len(stopped.trials) < len(pool)
    assert stopped.trials == all_of_it.trials[: len(stopped.trials)]
    with pytest.raises(TypeError, match="takes a ModelSampler"):
        tune(ReplayRunner(records), RandomOrderSampler(pool), 3, stop_gain=0.05)


@pytest.mark.parametrize("goal", list(SearchGoal))
def test_a_search_over_several_budgets_ends_after_measurements_without_gain(records, pool, oracle, goal):
    both = pool.on(landscape_platform(32), landscape_platform(132))
    stopped = tune(ReplayRunner(records), ModelSampler(both, goal=goal), len(pool), stop_gain=0.05)
    assert 16 <= len(stopped.trials) < len(pool)
    patience = stopped.latency_s[:-16].min(axis=0)
    assert (stopped.latency_s.min(axis=0) > 0.9 * patience).all()


def test_what_gains_at_one_budget_only_keeps_a_portfolio_going_and_not_one_kernel(pool, oracle):
    """Each kernel is faster than all before on few SMs, and slower than the first on all others."""
    ended = {}
    for goal in SearchGoal:
        sampler = ModelSampler(pool.on(landscape_platform(32), landscape_platform(132)), goal=goal)
        study = optuna.create_study(sampler=sampler)
        for i in range(6):
            latency_s = [1e-3 * 0.8**i, 1e-4 if i == 0 else 1e-3]
            trial = study.ask()
            trial.set_user_attr("latency_s", latency_s)
            study.tell(trial, sampler.value(np.array(latency_s), np.array([1e-3, 1e-4])))
        ended[goal] = StopGain(sampler, 0.1, window=3, patience=4).is_reached(study)
    assert ended == {SearchGoal.ONE_KERNEL: True, SearchGoal.PORTFOLIO: False}


@pytest.mark.parametrize("gain", [0.0, 1.0, -0.1])
def test_a_gain_is_a_share(gain, pool, oracle):
    with pytest.raises(ValueError, match=r"gain must be in \(0, 1\)"):
        StopGain(ModelSampler(pool, oracle), gain)
