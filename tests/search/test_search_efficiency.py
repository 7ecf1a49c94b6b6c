"""How many measurements the samplers need, on landscapes whose best is known."""

import numpy as np
import optuna
import pytest
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from costmodel.learners._metrics import expected_n_eps, n_eps
from costmodel.search import ModelSampler, Pool, PoolSampler, RandomOrderSampler
from costmodel.testing import LANDSCAPE_WORKLOADS, gpu_landscape
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

EPS = 0.05
CONFIGS = 64
optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(scope="module")
def tasks():
    """Pool, latencies and a model that never saw the workload, for each of eight tasks."""
    dataset = gpu_landscape(
        seed=11, workloads=LANDSCAPE_WORKLOADS[:6], configs_per_workload=CONFIGS, sms=(8, 32, 132)
    )
    found = []
    for workload in LANDSCAPE_WORKLOADS[:4]:
        model = train(dataset, "xgboost", hold_out=[workload]).model
        for position in (0, 1):
            rows = dataset.rows.query("workload == @workload and platform == @position")
            pool = Pool([dataset.candidates[i] for i in rows["candidate"]], dataset.platforms[position])
            found.append((pool, rows["latency_s"].to_numpy(), model))
    return found


def _measurements_needed(sampler, latency_s):
    """Measurements until within EPS of the best, as the sampler orders the whole pool."""
    pool, study, order = sampler.space, optuna.create_study(sampler=sampler), []
    for _ in range(len(pool)):
        trial = study.ask(pool.distributions)
        order.append(latency_s[pool.position(trial.params)])
        failed = np.isinf(order[-1])
        study.tell(trial, None if failed else order[-1], state=TrialState.FAIL if failed else None)
        if order[-1] <= (1 + EPS) * latency_s.min():
            break
    return n_eps(np.array(order), EPS, latency_s.min())


def _tpe(pool, seed):
    return PoolSampler(pool, TPESampler(seed=seed), seed=seed)


def _medians(tasks, make, seeds=2):
    """Median over the tasks and seeds."""
    runs = [(task, seed) for task in tasks for seed in range(seeds)]
    return np.median([_measurements_needed(make(*task, seed), task[1]) for task, seed in runs])


def test_transfer_needs_a_third_of_what_random_and_tpe_need(tasks):
    ours = _medians(tasks, lambda pool, _, model, seed: ModelSampler(pool, model, seed=seed))
    random = np.median([expected_n_eps(latency_s, EPS) for _, latency_s, _ in tasks])
    tpe = _medians(tasks, lambda pool, _y, _m, seed: _tpe(pool, seed), seeds=3)
    assert ours <= random / 3
    assert ours <= tpe / 3


def test_learning_from_nothing_needs_half_of_what_random_needs(tasks):
    def scratch(pool, _y, _m, seed):
        return ModelSampler(pool, seed=seed)

    random = np.median([expected_n_eps(latency_s, EPS) for _, latency_s, _ in tasks])
    assert _medians(tasks, scratch) <= random / 2


def test_random_order_needs_what_is_expected_of_it(tasks):
    pool, latency_s, _ = tasks[0]
    needed = [_measurements_needed(RandomOrderSampler(pool, seed=s), latency_s) for s in range(60)]
    expected = expected_n_eps(latency_s, EPS)
    assert np.mean(needed) == pytest.approx(expected, abs=4 * np.std(needed) / np.sqrt(len(needed)))
