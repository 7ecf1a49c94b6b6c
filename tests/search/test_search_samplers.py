import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, TPESampler

from costmodel.errors import CostModelError
from costmodel.learners import Prediction
from costmodel.search import DeclaredSpace, ModelSampler, Pool, PoolSampler, RandomOrderSampler
from costmodel.search.samplers._history import History
from costmodel.search.samplers._model import PREDICTED_LATENCY, PREDICTED_RANK

pytestmark = pytest.mark.white_box

optuna.logging.set_verbosity(optuna.logging.WARNING)


def _tpe(pool, seed=0):
    return PoolSampler(pool, TPESampler(seed=seed), seed=seed)


def _genetic(pool, seed=0):
    return PoolSampler(pool, NSGAIISampler(population_size=8, seed=seed), seed=seed)


@pytest.fixture(params=["shortlist", "random", "tpe", "genetic"])
def sampler(request, pool, oracle):
    if request.param == "shortlist":
        return ModelSampler(pool, oracle)
    return {"random": RandomOrderSampler, "tpe": _tpe, "genetic": _genetic}[request.param](pool)


class Wishing(BaseSampler):
    """Proposes what it is told to."""

    def __init__(self, wish):
        self.wish, self.told = wish, []

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {name: value for name, value in self.wish.items() if name in search_space}

    def sample_independent(self, study, trial, param_name, param_distribution):
        raise AssertionError("all is proposed together")

    def after_trial(self, study, trial, state, values):
        self.told.append((trial.number, state, values))


class Opposed:
    """Scores the other way round than another."""

    def __init__(self, other):
        self.other = other

    def predict(self, X):
        told = self.other.predict(X)
        ran = np.isfinite(told.latency_s)
        return Prediction(np.where(ran, -told.score, -1.0), told.latency_s)


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


def test_a_candidate_that_the_user_prunes_is_not_proposed_again(sampler, pool):
    study = optuna.create_study(sampler=sampler)
    for _ in range(8):
        study.tell(study.ask(pool.distributions), state=optuna.trial.TrialState.PRUNED)
    assert len(set(_positions(study, pool))) == 8


def test_a_pool_that_is_pruned_to_the_end_is_used_up(sampler, pool):
    def pruned(trial):
        pool.suggest(trial)
        raise optuna.TrialPruned

    study = optuna.create_study(sampler=sampler)
    study.optimize(pruned, n_trials=len(pool) + 10)
    assert len(study.trials) == len(pool)


@pytest.mark.parametrize("directions", [["maximize"], ["minimize", "minimize"]])
def test_a_study_that_does_not_minimise_one_value_is_refused_at_the_start(sampler, pool, directions):
    study = optuna.create_study(sampler=sampler, directions=directions)
    with pytest.raises(CostModelError, match="must minimise one value"):
        study.ask(pool.distributions)


def test_values_that_are_no_latencies_are_refused(pool, oracle):
    study = optuna.create_study(sampler=ModelSampler(pool, oracle))
    study.tell(study.ask(), -2.5)
    with pytest.raises(CostModelError, match=r"positive latencies in seconds, but got -2\.5"):
        study.ask()


@pytest.mark.parametrize("change", [{"unroll_explicit": 10**6}, None])
def test_what_was_enqueued_and_is_no_config_is_refused_and_given_up(sampler, pool, change):
    """Out of range, or only a part of the parameters."""
    params = pool.params(pool.candidates[3].config)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial(params | change if change else dict(list(params.items())[:2]))
    with pytest.raises(CostModelError, match="all parameters of one config"):
        study.ask(pool.distributions)
    assert [trial.state.name for trial in study.trials] == ["PRUNED"]
    assert study.ask(pool.distributions).params


def test_a_model_proposes_before_anything_is_measured(pool, oracle, latencies, monkeypatch):
    """Which need not be what it predicts to be best; the prediction that is kept is its own."""

    def slowest_first(X, y):
        return oracle if y.size else Opposed(oracle)

    monkeypatch.setattr(oracle, "propose", slowest_first)
    study = _optimized(ModelSampler(pool, oracle), pool, latencies, 2)
    ran = np.where(np.isfinite(latencies), latencies, -np.inf)
    assert [trial.value for trial in study.trials] == [ran.max(), latencies.min()]
    assert study.trials[0].system_attrs[PREDICTED_LATENCY] == [ran.max()]


def test_ties_are_broken_by_the_seed_and_not_by_the_order_of_the_pool(pool, ignorant, latencies):
    first = [
        _positions(_optimized(ModelSampler(pool, ignorant, seed=s), pool, latencies, 1), pool)[0]
        for s in range(30)
    ]
    assert len(set(first)) > 15
    assert sum(position < len(pool) / 2 for position in first) in range(6, 25)


@pytest.mark.parametrize("make", [RandomOrderSampler, _tpe, _genetic])
def test_the_seed_decides_the_order(make, pool, latencies):
    runs = [_positions(_optimized(make(pool, seed=s), pool, latencies, 15), pool) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    "make", [RandomOrderSampler, lambda space, seed: ModelSampler(space, screened=64, seed=seed)]
)
def test_the_seed_decides_what_is_drawn_from_a_large_space(make):
    space = DeclaredSpace("line", {"x": IntDistribution(1, 10**6)})

    def proposed(seed):
        study = optuna.create_study(sampler=make(space, seed=seed))
        return [study.ask(space.distributions).params["x"] for _ in range(5)]

    first, again, other = map(proposed, (1, 1, 2))
    assert first == again
    assert not set(first) & set(other)


def test_what_was_not_screened_is_drawn_once_all_that_was_is_taken():
    space = DeclaredSpace("line", {"x": IntDistribution(1, 10**6)})
    study = optuna.create_study(sampler=ModelSampler(space, screened=4))
    assert len({study.ask(space.distributions).params["x"] for _ in range(10)}) == 10


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
    features = pool.features([candidate.config for candidate in pool.candidates])[:, 0]
    std = np.nanstd(features, axis=0)
    scaled = (np.nan_to_num(features) / np.where(std > 0, std, 1.0))[:, np.isfinite(std)]
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


def test_a_history_is_in_the_order_of_what_was_told_and_knows_what_waits(pool, latencies):
    study = optuna.create_study(sampler=RandomOrderSampler(pool))
    fast, slow = (study.ask(pool.distributions) for _ in range(2))
    study.tell(slow, 2.0)
    study.tell(fast, 1.0)
    waiting = pool.candidates[
        int(np.flatnonzero(~np.isin(range(len(pool)), _positions(study, pool)))[0])
    ].config
    study.enqueue_trial(pool.params(waiting))
    history = History.of(study, pool)
    assert history.measured == tuple(pool.config(trial.params) for trial in (slow, fast))
    assert history.value.tolist() == [2.0, 1.0]
    assert history.pending == (waiting,)
    assert waiting.config_id in history.tried


def test_the_prediction_is_kept_with_the_trial(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle), pool, latencies, n_trials=3)
    assert [t.system_attrs[PREDICTED_LATENCY] for t in study.trials] == [[y] for y in sorted(latencies)[:3]]


def test_a_study_of_another_pool_is_refused(pool, oracle, latencies):
    study = _optimized(ModelSampler(pool, oracle), pool, latencies, n_trials=3)
    study.sampler = RandomOrderSampler(Pool(pool.candidates[-3:], *pool.platforms))
    with pytest.raises(CostModelError, match="must be those of a candidate in the pool"):
        study.ask(pool.distributions)


@pytest.mark.parametrize("known", [(), (7,), (7, 12, 31)])
def test_a_proposal_moves_to_the_nearest_untried_candidate(known, pool):
    configs = [candidate.config for candidate in pool.candidates]
    wish = {name: value for name, value in pool.params(configs[7]).items() if name != "sketch"}
    distance = [_distance_by_hand(wish, pool.params(config)) for config in configs]
    left = np.setdiff1d(np.arange(len(pool)), known)
    history = History(tuple(configs[i] for i in known), np.ones((len(known), 1)), np.ones(len(known)))
    chosen = _choice(PoolSampler(pool, Wishing(wish)), history)
    assert chosen in left
    assert distance[chosen] == pytest.approx(min(distance[i] for i in left))


def test_what_a_sampler_leaves_open_is_drawn_at_random(pool):
    nothing = History((), np.empty((0, 1)), np.empty(0))
    chosen = [_choice(PoolSampler(pool, Wishing({}), seed=s), nothing) for s in range(40)]
    assert len(set(chosen)) > len(pool) / 4


def test_the_sampler_within_sees_results_and_failures(pool, latencies):
    failed = int(np.flatnonzero(np.isinf(latencies))[0])
    held = PoolSampler(pool, Wishing(pool.params(pool.candidates[failed].config)))
    _optimized(held, pool, latencies, n_trials=1)
    assert [(number, state.name) for number, state, _ in held.sampler.told] == [(0, "FAIL")]


def test_a_sampler_learns_of_the_candidate_that_was_measured(pool, latencies):
    study = _optimized(_genetic(pool), pool, latencies, n_trials=30)
    generations = {trial.system_attrs["NSGAIISampler:generation"] for trial in study.trials}
    assert max(generations) >= 2


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_optunas_gaussian_process_is_held_to_a_pool(pool, latencies):
    study = _optimized(PoolSampler(pool, GPSampler(seed=0)), pool, latencies, n_trials=16)
    assert len(set(_positions(study, pool))) == 16


def _choice(sampler, history):
    """Position of what a sampler chooses first."""
    study = optuna.create_study()
    trial = study._storage.get_trial(study.ask()._trial_id)
    return sampler.pool.position(sampler.pool.params(sampler.choose(study, trial, history)))


def _distance_by_hand(wish, params):
    ranges = {"unroll_explicit": 512, "cooperative_fetch.A_shared": 3, "cooperative_fetch.B_shared": 3}
    parts = [abs(wish[n] - params[n]) / ranges[n] if n in ranges else wish[n] != params[n] for n in wish]
    return sum(parts)
