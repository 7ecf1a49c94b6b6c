"""Measured times that drift while a search runs."""

from dataclasses import replace

import msgspec
import numpy as np
import optuna
import pytest

from costmodel.collector import ReplayRunner
from costmodel.search import (
    DriftMonitor,
    ModelSampler,
    Pool,
    RandomOrderSampler,
    SearchResult,
    open_study,
    tune,
)
from costmodel.search._drift_monitor import Drift
from costmodel.search._drift_watch import DriftWatch
from costmodel.search.samplers._history import History, drifts_of

pytestmark = pytest.mark.white_box

NOISE = 0.005


class DriftingRunner(ReplayRunner):
    """A device: it measures anything again, with noise, and after so many measurements all takes longer."""

    def __init__(self, records, drifts_after=10_000, factor=1.3):
        super().__init__(records)
        self.rng = np.random.default_rng(0)
        self.drifts_after, self.factor = drifts_after, factor
        self.measured = self.again = 0

    repeats = True

    def measure(self, candidates, platform, *, visit=0):
        return [self._now(recorded, visit) for recorded in super().measure(candidates, platform)]

    def _now(self, recorded, visit):
        level = self.factor if self.measured >= self.drifts_after else 1.0
        by = level * np.exp(self.rng.normal(0.0, NOISE))
        self.measured += 1
        self.again += visit
        latencies_s = tuple(by * each for each in recorded.latencies_s)
        return msgspec.structs.replace(recorded, latencies_s=latencies_s, visit=visit)


@pytest.mark.parametrize("factor", [1.3, 1 / 1.3])
@pytest.mark.parametrize("make", [ModelSampler, RandomOrderSampler])
def test_a_drift_is_told_soon_and_earlier_times_brought_up_to_it(records, pool, make, factor) -> None:
    runner, study = DriftingRunner(records, drifts_after=25, factor=factor), optuna.create_study()
    result = tune(runner, make(pool), len(pool), study=study)
    (drift,) = result.drifts
    assert drift.ratio == pytest.approx(factor, rel=0.02)
    assert drift.since == pytest.approx(24, abs=20)  # between the repeat before it and the one after it
    recorded = {m.candidate.candidate_id: m for m in records if m.platform == pool.platforms[0]}
    off = [t.latency_s[0] / recorded[t.candidate.candidate_id].latency_s / factor for t in ran(result)]
    assert (np.abs(np.log(off)) > 0.1).sum() <= 20
    assert all(trial.value == trial.latency_s[0] for trial in result.trials)


def ran(result):
    return [trial for trial in result.trials if np.isfinite(trial.value)]


def test_what_is_learned_from_is_at_the_present_level_too(records, pool) -> None:
    runner, study = DriftingRunner(records, drifts_after=25), optuna.create_study()
    result = tune(runner, RandomOrderSampler(pool), 50, study=study)
    history = History.of(study, pool)
    assert drifts_of(study) == result.drifts != ()
    assert history.latency_s.tolist() == [list(trial.latency_s) for trial in result.trials]
    assert history.value.tolist() == [trial.value for trial in result.trials]


def test_without_a_drift_one_measurement_in_twenty_is_a_repeat_and_nothing_is_told(records, pool) -> None:
    runner = DriftingRunner(records)
    result = tune(runner, RandomOrderSampler(pool), len(pool))
    assert result.drifts == ()
    assert 2 <= runner.again <= 12  # a suspicion now and then
    assert len(result.trials) == len(pool)


def test_few_kernels_on_many_budgets_are_not_measured_again(records) -> None:
    """Of four on twelve budgets two are undoubted, each of which may be unsteady."""
    here = {m.platform.platform_id: m.platform for m in records}.values()
    some = list({m.candidate.candidate_id: m.candidate for m in records}.values())
    for kernels, again in ((4, 0), (6, 3)):
        space, study = Pool(some[:kernels], *here), optuna.create_study()
        tune(DriftingRunner(records), RandomOrderSampler(space), kernels, study=study)
        watch = DriftWatch(study, space, DriftMonitor(repeat_every=2))
        for trial in study.trials:
            watch.told(trial.number)
        assert len(watch.to_repeat()) == again


def test_a_replay_measures_nothing_again(records, pool) -> None:
    runner = DriftingRunner(records, drifts_after=25)
    runner.repeats = False
    assert tune(runner, ModelSampler(pool), len(pool)).drifts == ()
    assert runner.again == 0
    assert not ReplayRunner(records).repeats


def test_a_search_that_goes_on_elsewhere_knows_the_drift(records, pool, tmp_path) -> None:
    place = str(tmp_path / "study.log")
    runner = DriftingRunner(records, drifts_after=15)
    first = tune(runner, RandomOrderSampler(pool), 45, study=open_study(place, "s"))
    again = tune(runner, RandomOrderSampler(pool), 50, study=open_study(place, "s"))
    assert first.drifts == again.drifts != ()
    assert [trial.latency_s for trial in again.trials[:45]] == [trial.latency_s for trial in first.trials]


def test_several_searches_number_drifts_as_their_trials(records, pool) -> None:
    one = tune(ReplayRunner(records), RandomOrderSampler(pool), 3)
    two = replace(one, drifts=(Drift(1.5, 2),))
    assert SearchResult.joined({"a": one, "b": two}).drifts == (Drift(1.5, 5),)
