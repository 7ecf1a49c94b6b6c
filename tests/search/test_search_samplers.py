import numpy as np
import optuna
import pytest

from costmodel.errors import CostModelError
from costmodel.search import ModelSampler, Pool, PoolTPESampler, RandomOrderSampler
from costmodel.search._history import History
from costmodel.search._model_sampler import PREDICTED_LATENCY, PREDICTED_RANK

optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(params=["shortlist", "random", "tpe"])
def sampler(request, pool, oracle):
    if request.param == "shortlist":
        return ModelSampler(pool, oracle)
    return {"random": RandomOrderSampler, "tpe": PoolTPESampler}[request.param](pool)


def _positions(study, pool):
    return [pool.position(trial.params) for trial in study.trials]


def _objective(pool, latencies):
    latency_of = dict(zip([c.candidate_id for c in pool.candidates], latencies, strict=True))

    def objective(trial):
        latency = latency_of[pool.candidate(pool.suggest(trial)).candidate_id]
        if np.isinf(latency):
            raise RuntimeError("launch failed")
        return latency

    return objective


def _optimized(sampler, pool, latencies, n_trials):
    study = optuna.create_study(sampler=sampler)
    study.optimize(_objective(pool, latencies), n_trials=n_trials, catch=(RuntimeError,))
    return study


def test_each_candidate_is_proposed_once_and_then_the_loop_ends(sampler, pool, latencies):
    study = _optimized(sampler, pool, latencies, n_trials=len(pool) + 20)
    assert sorted(_positions(study, pool)) == list(range(len(pool)))
    assert study.best_value == latencies.min()


def test_asking_an_exhausted_pool_is_refused(sampler, pool, latencies):
    study = _optimized(sampler, pool, latencies, n_trials=len(pool))
    with pytest.raises(CostModelError, match=f"all {len(pool)} have been"):
        study.ask(pool.distributions)


def test_asking_for_several_gives_distinct_candidates(sampler, pool):
    study = optuna.create_study(sampler=sampler)
    for _ in range(12):
        study.ask(pool.distributions)
    assert len(set(_positions(study, pool))) == 12


def test_a_pruned_candidate_may_come_again(pool, oracle):
    study = optuna.create_study(sampler=ModelSampler(pool, oracle, explore_every=0))
    first = study.ask(pool.distributions)
    study.tell(first, state=optuna.trial.TrialState.PRUNED)
    assert study.ask(pool.distributions).params == first.params


@pytest.mark.parametrize("make", [RandomOrderSampler, PoolTPESampler])
def test_the_seed_decides_the_order(make, pool, latencies):
    runs = [_positions(_optimized(make(pool, seed=s), pool, latencies, 15), pool) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_parameter_outside_the_pool_is_refused(sampler, pool):
    trial = optuna.create_study(sampler=sampler).ask()
    with pytest.raises(ValueError, match="parameters must be those of a config of the space"):
        trial.suggest_float("learning_rate", 0.0, 1.0)


def test_without_exploring_the_shortlist_follows_the_scores(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle, explore_every=0), pool, latencies, n_trials=10)
    assert _positions(study, pool) == list(np.argsort(latencies)[:10])


def test_every_fourth_proposal_explores_the_best_quarter(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle, explore_every=4), pool, latencies, n_trials=8)
    ranks = [trial.system_attrs[PREDICTED_RANK] for trial in study.trials]
    assert [ranks[i] for i in (0, 1, 2)] == [1, 2, 3]
    assert ranks[3] > 4
    assert ranks[3] <= 3 + np.ceil(len(pool) / 4)


def test_exploring_takes_the_candidate_farthest_from_what_was_tried(pool, ignorant, latencies):
    study = _optimized(ModelSampler(pool, ignorant), pool, latencies, n_trials=6)
    features = pool.features([candidate.config for candidate in pool.candidates])
    spread = np.nanstd(features, axis=0)
    scaled = (np.nan_to_num(features) / np.where(spread > 0, spread, 1.0))[:, np.isfinite(spread)]
    order = _positions(study, pool)
    for i in range(1, len(order)):
        nearest = [min(((scaled[c] - scaled[t]) ** 2).sum() for t in order[:i]) for c in range(len(pool))]
        assert nearest[order[i]] == pytest.approx(max(nearest))


def test_the_model_learns_each_result_and_failures_as_infinite(pool, oracle, latencies):
    failed = int(np.flatnonzero(np.isinf(latencies))[0])
    study = optuna.create_study(sampler=ModelSampler(pool, oracle))
    study.enqueue_trial(pool.params(pool.candidates[failed].config))
    study.optimize(_objective(pool, latencies), n_trials=4, catch=(RuntimeError,))
    assert [len(y) for y in oracle.adapted_to] == [1, 2, 3]
    assert all(np.isinf(y[0]) and np.isfinite(y[1:]).all() for y in oracle.adapted_to)


def test_the_prediction_is_kept_with_the_trial(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle), pool, latencies, n_trials=3)
    assert [t.system_attrs[PREDICTED_LATENCY] for t in study.trials] == sorted(latencies)[:3]


def test_a_study_of_another_pool_is_refused(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle), pool, latencies, n_trials=3)
    study.sampler = RandomOrderSampler(Pool(pool.candidates[-3:], pool.platform))
    with pytest.raises(CostModelError, match="must be those of a candidate in the pool"):
        study.ask(pool.distributions)


def test_tpe_proposals_move_to_the_nearest_untried_candidate(pool, latencies):
    sampler = PoolTPESampler(pool)
    study = _optimized(sampler, pool, latencies, n_trials=12)
    wish = {name: value for name, value in pool.params(pool.candidates[7].config).items() if name != "sketch"}
    sampler._tpe.sample_relative = lambda *_: wish
    others = np.setdiff1d(np.arange(len(pool)), [7])
    configs = [candidate.config for candidate in pool.candidates]
    assert sampler.choose(study, study.trials[-1], History((), np.array([]))) == configs[7]
    chosen = sampler.choose(study, study.trials[-1], History((configs[7],), np.array([1.0])))
    distance = {i: _distance_by_hand(wish, pool.params(configs[i])) for i in others}
    assert distance[configs.index(chosen)] == pytest.approx(min(distance.values()))


def _distance_by_hand(wish, params):
    ranges = {"unroll_explicit": 512, "cooperative_fetch.A_shared": 3, "cooperative_fetch.B_shared": 3}
    parts = [abs(wish[n] - params[n]) / ranges[n] if n in ranges else wish[n] != params[n] for n in wish]
    return sum(parts)
