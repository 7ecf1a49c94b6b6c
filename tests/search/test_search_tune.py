import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import optuna
import pytest

from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.records import Outcome
from costmodel.records._peak_rates import least_latency_s
from costmodel.search import ModelSampler, Pool, RandomOrderSampler, Search, open_study, tune
from costmodel.search._search import batches_in_flight
from costmodel.search._tune import tune_together
from costmodel.search.samplers._history import LATENCIES
from costmodel.testing import landscape_platform

pytestmark = pytest.mark.white_box

logging.getLogger("optuna").setLevel(logging.WARNING)


class CountingRunner(ReplayRunner):
    """A replay that notes what it is asked for, and can break."""

    def __init__(self, measurements, breaks_after=None, in_flight=1):
        super().__init__(measurements)
        self.measured = 0
        self.events = []
        self.breaks_after = breaks_after
        self._in_flight = in_flight

    @property
    def in_flight(self):
        return self._in_flight

    def measure(self, candidates, platform, *, visit=0):
        if self.measured == self.breaks_after:
            raise KeyboardInterrupt
        self.measured += len(candidates)
        self.events.append(("measure", [candidate.candidate_id for candidate in candidates]))
        return super().measure(candidates, platform, visit=visit)

    def prefetch(self, candidates):
        self.events.append(("build", [candidate.candidate_id for candidate in candidates]))


@pytest.fixture
def runner(records):
    return CountingRunner(records)


def test_only_the_shortlist_is_measured(runner, pool, oracle, latencies):
    result = tune(runner, ModelSampler(pool, oracle), 8)
    assert runner.measured == 8
    assert len(result.trials) == result.provenance.n_measurements == 8
    assert result.best.latency_s == (latencies.min(),)
    assert result.best.predicted_rank == 1
    assert result.best.predicted_latency_s == (latencies.min(),)


def test_trials_are_ranked_by_measured_latency_with_failures_last(runner, pool, latencies):
    result = tune(runner, RandomOrderSampler(pool), len(pool))
    assert [trial.value for trial in result.ranked] == sorted(latencies)
    assert result.ranked[-1].outcomes == (Outcome.LAUNCH_ERROR,)
    assert result.ranked[-1].error == "too many resources requested for launch"
    assert result.ranked[-1].predicted_latency_s is None


def test_measurements_never_exceed_the_pool(runner, pool):
    assert len(tune(runner, RandomOrderSampler(pool), 10_000).trials) == len(pool)


def test_a_choice_among_equals_is_said(runner, pool, ignorant, oracle):
    assert tune(runner, ModelSampler(pool, ignorant), 2).trials[0].tied == len(pool)
    assert tune(runner, ModelSampler(pool, oracle), 2).trials[0].tied == 1


class Uncounted(Pool):
    """Does not know how many configs it holds, like the space of a kernel source."""

    @property
    def size(self):
        return None


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("make", [ModelSampler, RandomOrderSampler])
def test_a_search_ends_where_a_space_of_unknown_size_is_used_up(runner, pool, latencies, make, batch):
    space = Uncounted(pool.candidates, *pool.platforms)
    study = optuna.create_study()
    result = tune(runner, make(space), 1000, study=study, batch=batch)
    assert len(result.trials) == runner.measured == len(pool)
    assert result.best.value == latencies.min()
    assert optuna.trial.TrialState.RUNNING not in {trial.state for trial in study.trials}
    assert len(tune(runner, make(space), 1000, study=study).trials) == len(pool)


def test_batches_are_built_while_the_one_before_them_is_measured(records, pool, oracle):
    runner = CountingRunner(records, in_flight=4)
    result = tune(runner, ModelSampler(pool, oracle), 12)
    ids = [trial.candidate.candidate_id for trial in result.trials]
    batches = [ids[0:2], ids[2:4], ids[4:6], ids[6:8], ids[8:10], ids[10:12]]
    built, measured = [("build", batch) for batch in batches], [("measure", batch) for batch in batches]
    assert runner.events == [
        *built[:3],
        *(event for pair in zip(measured[:3], built[3:], strict=True) for event in pair),
        *measured[3:],
    ]
    assert len(set(ids)) == runner.measured == 12


@pytest.mark.parametrize(
    ("in_flight", "trials", "expected"),
    [
        (1, 10, (1, 1)),
        (2, 10, (1, 4)),
        (5, 10, (2, 2)),
        (6, 10, (3, 2)),
        (16, 10, (3, 2)),
        (14, 16, (4, 2)),
        (14, 40, (7, 2)),
        (14, 64, (7, 4)),
        (14, 1000, (7, 4)),
        (16, 1, (1, 2)),
    ],
)
def test_builders_have_twice_what_they_make_at_once_and_half_of_all_at_most(in_flight, trials, expected):
    assert batches_in_flight(in_flight, trials) == expected


@pytest.mark.parametrize(("in_flight", "batches"), [(1, 1), (7, 1), (8, 4), (64, 12)])
def test_of_a_settled_batch_as_many_are_in_flight(in_flight, batches):
    assert batches_in_flight(in_flight, 100, 4) == (4, batches)


class NotingSampler(ModelSampler):
    """Notes how many measurements each choice knows."""

    def __init__(self, space):
        super().__init__(space)
        self.known = []

    def choose(self, study, trial, history):
        self.known.append(len(history.measured))
        return super().choose(study, trial, history)


def test_a_batch_is_chosen_knowing_all_but_the_batches_in_flight(records, pool):
    samplers = [NotingSampler(pool), NotingSampler(pool)]
    once, again = (tune(CountingRunner(records, in_flight=4), sampler, 12) for sampler in samplers)
    assert [sampler.known for sampler in samplers] == [[0, 0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6]] * 2
    assert [trial.candidate for trial in once.trials] == [trial.candidate for trial in again.trials]


def test_an_interrupted_search_loses_at_most_what_is_in_flight(records, pool, oracle):
    study = optuna.create_study()
    broken = CountingRunner(records, breaks_after=4, in_flight=4)
    with pytest.raises(KeyboardInterrupt):
        tune(broken, ModelSampler(pool, oracle), 12, study=study)
    states = [trial.state for trial in study.trials]
    assert states.count(optuna.trial.TrialState.PRUNED) == 6  # three batches of two
    assert optuna.trial.TrialState.RUNNING not in states
    runner = CountingRunner(records, in_flight=4)
    assert len(tune(runner, ModelSampler(pool, oracle), 12, study=study).trials) == 12
    assert runner.measured == 8


def test_what_was_to_come_first_does_so_after_an_interruption_too(records, pool):
    first = [candidate.config for candidate in pool.candidates[5:8]]
    study = optuna.create_study()
    with pytest.raises(KeyboardInterrupt):
        tune(CountingRunner(records, breaks_after=1), RandomOrderSampler(pool), 6, study=study, first=first)
    result = tune(CountingRunner(records), RandomOrderSampler(pool), 6, study=study, first=first)
    measured = [trial.candidate.config for trial in result.trials]
    assert sorted(map(first.index, measured[:3])) == [0, 1, 2]
    assert len(measured) == len({config.config_id for config in measured}) == 6


def test_searches_in_turn_find_what_each_finds_alone(records, pool, oracle):
    other = Pool(pool.candidates[::2], *pool.platforms)
    makers = (lambda: ModelSampler(pool, oracle), lambda: ModelSampler(other))
    alone = [tune(CountingRunner(records, in_flight=4), make(), 8) for make in makers]
    runner = CountingRunner(records, in_flight=4)
    together = tune_together([Search(runner, make(), 8) for make in makers])
    for one, same in zip(alone, together, strict=True):
        assert [(t.candidate, t.latency_s) for t in one.trials] == [
            (t.candidate, t.latency_s) for t in same.trials
        ]
    assert [action for action, _ in runner.events][:5] == ["build"] * 4 + ["measure"]


def test_searches_in_turn_are_all_given_up_when_one_breaks(records, pool, oracle):
    studies = [optuna.create_study(), optuna.create_study()]
    runner = CountingRunner(records, breaks_after=4, in_flight=4)
    with pytest.raises(KeyboardInterrupt):
        tune_together([Search(runner, ModelSampler(pool, oracle), 8, study=study) for study in studies])
    for study in studies:
        assert optuna.trial.TrialState.RUNNING not in {trial.state for trial in study.trials}


def test_failures_fail_their_trial_and_never_become_a_latency(runner, pool):
    study = optuna.create_study()
    tune(runner, RandomOrderSampler(pool), len(pool), study=study)
    failed = [trial for trial in study.trials if trial.user_attrs["outcomes"] != ["ok"]]
    assert failed
    assert all(trial.state is optuna.trial.TrialState.FAIL and trial.value is None for trial in failed)
    assert all(trial.user_attrs[LATENCIES] == [None] for trial in failed)


def test_a_search_where_all_fail_says_so(records, pool, latencies):
    failing = [c for c, latency in zip(pool.candidates, latencies, strict=True) if np.isinf(latency)]
    result = tune(ReplayRunner(records), RandomOrderSampler(Pool(failing, *pool.platforms)), 5)
    with pytest.raises(CostModelError, match="too many resources requested for launch"):
        _ = result.best


def test_an_interrupted_search_goes_on_from_its_storage(records, pool, oracle, tmp_path):
    storage = f"sqlite:///{tmp_path}/studies.db"
    study = optuna.create_study(storage=storage, study_name="s")
    with pytest.raises(KeyboardInterrupt):
        tune(CountingRunner(records, breaks_after=5), ModelSampler(pool, oracle), 9, study=study)

    runner = CountingRunner(records)
    again = optuna.load_study(storage=storage, study_name="s")
    result = tune(runner, ModelSampler(pool, oracle), 9, study=again)
    straight = tune(CountingRunner(records), ModelSampler(pool, oracle), 9)
    assert runner.measured == 4
    assert [t.candidate for t in result.trials] == [t.candidate for t in straight.trials]
    assert [t.latency_s for t in result.trials] == [t.latency_s for t in straight.trials]


def test_a_stored_study_of_another_pool_is_refused(runner, pool):
    study = optuna.create_study()
    tune(runner, RandomOrderSampler(pool), 2, study=study)
    other = Pool(pool.candidates, landscape_platform(132))
    with pytest.raises(CostModelError, match=f"must be of this space.*{pool.space_id}"):
        tune(runner, RandomOrderSampler(other), 4, study=study)


def test_each_trial_is_reported_as_it_ends(runner, pool):
    reported = []
    result = tune(runner, RandomOrderSampler(pool), 6, on_trial=reported.append)
    assert tuple(reported) == result.trials


def test_the_answer_carries_where_it_came_from(runner, pool, oracle):
    sampler = ModelSampler(pool, oracle, knowledge={"dataset": "sha256:abc"})
    provenance = tune(runner, sampler, 2).provenance
    assert provenance.knowledge == {"sampler": "ModelSampler", "model": "Oracle", "dataset": "sha256:abc"}
    assert "nothing is measured" in provenance.runner
    assert (provenance.space_id, provenance.n_screened) == (pool.space_id, len(pool))
    assert {"costmodel", "optuna", "numpy", "python"} <= provenance.versions.keys()


def test_the_model_predicts_once_for_each_measurement(runner, pool, oracle):
    predictions = []
    predict = oracle.predict
    oracle.predict = lambda X: predictions.append(len(X)) or predict(X)
    tune(runner, ModelSampler(pool, oracle), 6)
    assert predictions == [len(pool)] * 6


def test_a_batch_is_measured_at_once_and_repeats_nothing(runner, pool, oracle):
    asked = []
    measure = runner.measure
    runner.measure = lambda candidates, platform: (
        asked.append(len(candidates)) or measure(candidates, platform)
    )
    result = tune(runner, ModelSampler(pool, oracle), 10, batch=4)
    assert asked == [4, 4, 2]
    assert len({trial.candidate.candidate_id for trial in result.trials}) == 10


def test_what_is_asked_for_and_never_told_is_given_up_when_interrupted(records, pool, oracle):
    study = optuna.create_study()
    with pytest.raises(KeyboardInterrupt):
        tune(CountingRunner(records, breaks_after=0), ModelSampler(pool, oracle), 4, study=study, batch=3)
    assert [t.state for t in study.trials] == [optuna.trial.TrialState.PRUNED] * 3
    assert len(tune(CountingRunner(records), ModelSampler(pool, oracle), 4, study=study).trials) == 4


@pytest.mark.parametrize("name", ["s.db", "s.journal"])
def test_a_study_in_a_file_goes_on(records, pool, oracle, tmp_path, name):
    place = str(tmp_path / "new" / name)
    tune(CountingRunner(records), ModelSampler(pool, oracle), 3, study=open_study(place, "s"))
    runner = CountingRunner(records)
    result = tune(runner, ModelSampler(pool, oracle), 5, study=open_study(place, "s"))
    assert runner.measured == 2
    assert len(result.trials) == 5


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trials SET number = 'x' WHERE number = 1",
        "UPDATE trial_user_attributes SET value_json = '[0]' WHERE key = 'outcomes'",
        "UPDATE trial_user_attributes SET value_json = '{'",
        "UPDATE trial_user_attributes SET value_json = '[-1.0]' WHERE key = 'latency_s'",
        "DELETE FROM trial_user_attributes WHERE key = 'outcomes'",
        "UPDATE trial_params SET distribution_json = '3'",
        "UPDATE trials SET number = 7 WHERE number = 2",
        """UPDATE study_user_attributes SET value_json = '{"a": 1}' WHERE key = 'costmodel:goal'""",
        "UPDATE study_user_attributes SET value_json = '{'",
    ],
)
def test_a_study_that_was_altered_is_refused_in_a_sentence(records, pool, oracle, tmp_path, change):
    place = tmp_path / "s.db"
    tune(CountingRunner(records), ModelSampler(pool, oracle), 3, study=open_study(str(place), "s"))
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute(change).rowcount
        connection.commit()
    with pytest.raises(CostModelError, match=r"[Ss]tudy"):
        tune(CountingRunner(records), ModelSampler(pool, oracle), 5, study=open_study(str(place), "s"))


@pytest.mark.parametrize("name", ["s.db", "s.log", "sqlite:///s.db"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_a_database_is_a_regular_file_or_is_made(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    make = {"folder": Path.mkdir, "pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero")}
    make[kind](Path(name.rpartition("/")[2]))
    with pytest.raises(CostModelError, match=r"Is a directory|a named pipe|a device"):
        open_study(name, "s")


def test_a_storage_that_fails_amid_a_search_says_what_is_kept(records, pool, oracle, tmp_path):
    class Breaking(CountingRunner):
        def measure(self, candidates, platform, *, visit=0):
            with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
                connection.execute("DROP TABLE trial_values")
            return super().measure(candidates, platform, visit=visit)

    with pytest.raises(CostModelError, match=r"storage of a study must answer, but: .*no such table"):
        tune(Breaking(records), ModelSampler(pool, oracle), 3, study=open_study(str(tmp_path / "s.db"), "s"))


@pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning")
def test_a_search_goes_on_from_a_journal_whose_last_line_is_torn(records, pool, oracle, tmp_path):
    """As a full disk leaves it."""
    place = tmp_path / "s.log"
    tune(CountingRunner(records), ModelSampler(pool, oracle), 3, study=open_study(str(place), "s"))
    place.write_bytes(place.read_bytes()[:-5])
    result = tune(CountingRunner(records), ModelSampler(pool, oracle), 5, study=open_study(str(place), "s"))
    assert len(result.trials) == 4  # the fifth, half told, is in the hands of this process, which lives
    assert (tmp_path / "s.log.torn").read_bytes()


def test_a_journal_whose_last_line_is_damaged_is_refused_in_a_sentence(records, pool, oracle, tmp_path):
    place = tmp_path / "s.log"
    tune(CountingRunner(records), ModelSampler(pool, oracle), 3, study=open_study(str(place), "s"))
    place.write_bytes(place.read_bytes()[:-5] + b"\n")
    with pytest.raises(CostModelError, match=r"Cannot open the study 's' at .*s.log: Invalid control"):
        tune(CountingRunner(records), ModelSampler(pool, oracle), 5, study=open_study(str(place), "s"))


def test_no_latency_is_reported_as_predicted_that_the_hardware_rules_out(pool, runner, oracle) -> None:
    oracle.rows = dict.fromkeys(oracle.rows, 1e-12)
    result = tune(runner, ModelSampler(pool, oracle), 3)
    for trial in result.trials:
        (platform,) = pool.platforms
        least = least_latency_s(trial.candidate.workload, platform.device, platform.sms_granted)
        assert least > 0
        assert trial.predicted_latency_s == (least,)
