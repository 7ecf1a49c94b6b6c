"""The search over several SM budgets, on a landscape whose best kernels are known."""

import numpy as np
import optuna
import pytest

from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.learners import Prediction
from costmodel.records import Outcome
from costmodel.search import ModelSampler, Objective, Pool, open_study, tune
from costmodel.search._objective import ObjectiveName, SearchGoal
from costmodel.search._portfolio import best_portfolio, served_s
from costmodel.search.samplers._prediction import SearchPrior
from costmodel.testing import gpu_landscape, landscape_platform
from costmodel.transfer import TransferModel

pytestmark = pytest.mark.white_box

SMS = (8, 32, 132)
WORKLOAD = "matmul-m512-n512-k512"
optuna.logging.set_verbosity(optuna.logging.WARNING)


class Oracle(TransferModel):
    """Knows the latency of every kernel on every budget."""

    def __init__(self, space, latency_s):
        X = space.features([c.config for c in space.candidates])
        rows = zip(X.reshape(-1, X.shape[-1]), latency_s.ravel(), strict=True)
        self.rows = {_key(row): y for row, y in rows}

    def fit(self, X, y, task_ids):
        return self

    def predict(self, X):
        latency_s = np.minimum([self.rows[_key(row)] for row in X], 1.0)
        return Prediction(score=-np.log(latency_s), latency_s=latency_s)

    def adapt(self, X, y):
        return self


class Ignorant(Oracle):
    """Knows nothing, and says so."""

    def predict(self, X):
        return Prediction(score=np.zeros(len(X)))


def _key(row):
    return tuple(np.nan_to_num(row))


@pytest.fixture(scope="module")
def records():
    return gpu_landscape(seed=9, workloads=[WORKLOAD], configs_per_workload=60, sms=SMS).to_measurements()


@pytest.fixture(scope="module")
def space(records):
    platforms = [landscape_platform(sms) for sms in SMS]
    return Pool([m.candidate for m in records if m.platform == platforms[0]], *platforms)


@pytest.fixture(scope="module")
def latency_s(records, space):
    by_key = {(m.candidate.candidate_id, m.platform.sms_granted): m.latency_s for m in records}
    return np.array([[by_key[c.candidate_id, sms] for sms in SMS] for c in space.candidates])


@pytest.fixture(scope="module")
def oracle(space, latency_s):
    return Oracle(space, latency_s)


@pytest.fixture(scope="module")
def ignorant(space, latency_s):
    return Ignorant(space, latency_s)


@pytest.fixture
def runner(records):
    return ReplayRunner(records)


WORST = Objective.make(ObjectiveName.WORST_REGRET, 3)
WEIGHTED = Objective.make(ObjectiveName.WEIGHTED, 3, (9.0, 1.0, 1.0))


@pytest.mark.parametrize("objective", [WORST, WEIGHTED, Objective.make(ObjectiveName.MEAN, 3)])
def test_the_first_kernel_is_the_one_that_the_model_knows_to_be_best_on_all(
    runner, space, oracle, latency_s, objective
):
    result = tune(runner, ModelSampler(space, oracle, objective=objective), 1)
    best = objective.regret(latency_s).argmin()
    assert result.trials[0].candidate == space.candidates[best]
    assert result.trials[0].latency_s == tuple(latency_s[best])
    assert result.trials[0].predicted_latency_s == pytest.approx(latency_s[best])


def test_no_kernel_is_the_best_on_every_budget_here(latency_s):
    """Otherwise the test above and the next could not fail."""
    assert len({int(column.argmin()) for column in latency_s.T}) == 3
    assert WORST.regret(latency_s).argmin() not in latency_s.argmin(axis=0)


def test_a_portfolio_takes_the_best_of_each_budget_first(runner, space, oracle, latency_s):
    sampler = ModelSampler(space, oracle, objective=WORST, goal=SearchGoal.PORTFOLIO, explore_every=0)
    result = tune(runner, sampler, 3)
    assert result.regret_of(result.portfolio(3)) == pytest.approx(0.0)
    np.testing.assert_allclose(result.latency_s.min(axis=0), latency_s.min(axis=0))


def test_a_model_that_knows_nothing_finds_the_best_when_all_is_measured(runner, space, ignorant, latency_s):
    result = tune(runner, ModelSampler(space, ignorant, objective=WORST), 1000)
    assert len({t.candidate.candidate_id for t in result.trials}) == len(result.trials) == len(latency_s)
    for most in (1, 2):
        best = served_s(latency_s, best_portfolio(latency_s, WORST, most)) / latency_s.min(axis=0) - 1.0
        assert result.regret_of(result.portfolio(most)).max() == pytest.approx(best.max())
    failed = [t for t in result.trials if Outcome.LAUNCH_ERROR in t.outcomes]
    assert failed
    assert all(np.isinf(t.latency_s).any() and t.error for t in failed)


def test_progress_falls_to_the_regret_of_the_choice(runner, space, ignorant):
    result = tune(runner, ModelSampler(space, ignorant, objective=WORST), 20)
    for most in (1, 3):
        progress = result.progress(most)
        assert (np.diff(progress[np.isfinite(progress)]) <= 1e-12).all()
        assert progress[-1] == pytest.approx(result.regret_of(result.portfolio(most)).max())


def test_values_do_not_drift_and_say_what_is_better(runner, space, oracle, latency_s):
    """A trial's value is the objective relative to the best that was predicted at the start."""
    study = optuna.create_study()
    tune(runner, ModelSampler(space, oracle, objective=WORST), 5, study=study)
    before = [trial.value for trial in study.trials]
    tune(runner, ModelSampler(space, oracle, objective=WORST), 12, study=study)
    assert [trial.value for trial in study.trials[:5]] == before
    expected = np.log1p(WORST.regret(latency_s).min())
    assert study.best_value == study.trials[0].value == pytest.approx(expected)


def test_a_stopped_search_goes_on_from_its_storage(records, space, ignorant, tmp_path):
    class Breaking(ReplayRunner):
        left = 7

        def measure(self, candidates, platform, *, visit=0):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().measure(candidates, platform, visit=visit)

    place = str(tmp_path / "study.log")
    study = open_study(place, "s")
    with pytest.raises(KeyboardInterrupt):
        tune(Breaking(records), ModelSampler(space, ignorant, objective=WORST), 6, study=study)
    again = open_study(place, "s")
    sampler = ModelSampler(space, ignorant, objective=WORST)
    result = tune(ReplayRunner(records), sampler, 6, study=again)
    assert len({t.candidate.candidate_id for t in result.trials}) == 6
    assert all(len(t.latency_s) == 3 for t in result.trials)


def test_a_study_for_another_objective_is_refused(runner, space, ignorant):
    study = optuna.create_study()
    tune(runner, ModelSampler(space, ignorant, objective=WORST), 2, study=study)
    with pytest.raises(CostModelError, match="must be for the same objective"):
        tune(runner, ModelSampler(space, ignorant, objective=WEIGHTED), 2, study=study)


def test_a_batch_has_no_candidate_twice(runner, space, oracle):
    sampler = ModelSampler(space, oracle, objective=WORST, goal=SearchGoal.PORTFOLIO)
    result = tune(runner, sampler, 12, batch=4)
    assert len({t.candidate.candidate_id for t in result.trials}) == 12


def test_what_does_not_compile_is_tried_on_one_budget_only(records, space, ignorant):
    class Uncompiling(ReplayRunner):
        calls = 0

        def measure(self, candidates, platform, *, visit=0):
            self.calls += 1
            found = super().measure(candidates, platform, visit=visit)
            return [_broken(m) for m in found]

    runner = Uncompiling(records)
    result = tune(runner, ModelSampler(space, ignorant, objective=WORST), 4)
    assert runner.calls == 4
    assert all(t.outcomes == (Outcome.COMPILE_ERROR,) * 3 for t in result.trials)
    with pytest.raises(CostModelError, match=r"At least one trial must succeed.*no such intrinsic"):
        result.portfolio(1)


def _broken(measurement):
    import msgspec

    return msgspec.structs.replace(
        measurement, outcome=Outcome.COMPILE_ERROR, latencies_s=(), error="no such intrinsic"
    )


def test_the_dispatch_table_of_a_search_runs_the_chosen_kernels(runner, space, oracle):
    result = tune(runner, ModelSampler(space, oracle, objective=WORST, goal=SearchGoal.PORTFOLIO), 8)
    ranges = result.portfolio(2)
    table = result.dispatch_table(ranges)
    for part in ranges:
        for position in range(part.first, part.last + 1):
            chosen = table.kernel_for(SMS[position])
            assert chosen.config == result.trials[part.kernel].candidate.config
    assert table.ranges[-1].to_sms == 132


class Certain:
    """Predicts given latencies, with a given std."""

    def __init__(self, latency_s, std):
        self.latency_s, self._std = np.array(latency_s), np.array(std)

    def predict(self, X):
        latency_s = self.latency_s[X[:, 0].astype(int)]
        return Prediction(score=-latency_s, latency_s=latency_s)

    def std(self, X):
        return self._std[X[:, 0].astype(int)]


class Adapts(TransferModel):
    def __init__(self, predictors):
        self.predictors = list(predictors)

    def fit(self, X, y, task_ids):
        return self

    def predict(self, X):
        return self.predictors[0].predict(X)

    def adapt(self, X, y):
        return self.predictors.pop(0)


def test_a_portfolio_is_scored_by_expected_improvement_at_any_budget():
    """Against the formula, integrated numerically."""
    std = [0.1, 0.5, 0.2]
    one, two = Certain([1.0, 1.2, 0.9], std), Certain([2.0, 1.0, 3.0], std)
    X = np.tile(np.arange(3.0)[:, None, None], (1, 2, 1))
    known = SearchPrior(
        Adapts([one, two]), Objective.make(ObjectiveName.MEAN, 2), SearchGoal.PORTFOLIO, lambda: X
    )
    scored = known.condition_on(X[:2], np.array([[1.0, 2.0], [1.1, 1.5]]))
    draws = np.random.default_rng(0).normal(size=(200_000, 1))
    improvement = [
        np.maximum(np.log(best) - (np.log(p.latency_s) + draws * std), 0.0).mean(axis=0)
        for best, p in ((1.0, one), (1.5, two))
    ]
    np.testing.assert_allclose(scored.predict(X).score, np.max(improvement, axis=0), atol=2e-3)


def test_an_objective_of_other_budgets_is_refused(space, ignorant):
    with pytest.raises(ValueError, match="as many SM budgets"):
        ModelSampler(space, ignorant, objective=Objective.make(ObjectiveName.MEAN, 2))
