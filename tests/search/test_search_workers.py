"""Several processes, one study: nothing is lost and nothing repeated, also when one is killed."""

import os
import signal
import socket
import threading
import time
from datetime import datetime, timedelta
from importlib.util import find_spec
from uuid import uuid4

import optuna
import postgres as postgres_server
import pytest
import sqlalchemy
from fresh_processes import Process
from optuna.trial import TrialState, create_trial
from tune_until_killed import SlowFormula, latency_s, make_space, tune_shared

from costmodel.databases import parse_database
from costmodel.errors import CostModelError
from costmodel.search import ModelSampler, Search, open_study, tune
from costmodel.search._ask import heartbeat
from costmodel.search._study import give_up_abandoned
from costmodel.search._tune import tune_together
from costmodel.search.samplers._turns import CHOICE, HEARTBEAT, OWNER, is_abandoned

pytestmark = pytest.mark.white_box

optuna.logging.set_verbosity(optuna.logging.WARNING)
FINISHED = (TrialState.COMPLETE, TrialState.FAIL)


@pytest.fixture(scope="session")
def postgres():
    """The URL of databases of a server, with braces for the name."""
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    with postgres_server.server(programs) as url:
        yield url


@pytest.fixture(params=["study.db", "study.journal", "postgresql"])
def place(request, tmp_path):
    if request.param != "postgresql":
        return str(tmp_path / request.param)
    url = request.getfixturevalue("postgres")
    name = f"study{uuid4().hex}"
    server = sqlalchemy.create_engine(parse_database(url.format("postgres")), isolation_level="AUTOCOMMIT")
    with server.connect() as admin:
        admin.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    return url.format(name)


@pytest.fixture
def start():
    """Starts workers, which do not outlive the test."""
    workers = []

    def start_worker(*arguments, **options):
        workers.append(Process(target=tune_shared, args=arguments, kwargs=options))
        workers[-1].start()
        return workers[-1]

    yield start_worker
    for worker in workers:
        worker.kill()
        worker.join()


def _configs(place, states):
    """Config of each trial in one of these states, in order."""
    space, study = make_space(), open_study(place, "shared")
    return [space.config(t.params).decisions for t in study.get_trials(states=states)]


def _ended(worker):
    """Its exit code, once it has ended."""
    worker.join()
    return worker.exitcode


def _wait_until(condition, worker):
    while not condition():
        assert worker.is_alive()
        time.sleep(0.05)


@pytest.mark.parametrize("in_flight", [1, 4])  # with 4 each has what the other waits for in the end
def test_two_processes_share_a_study_without_losing_or_repeating(place, start, in_flight):
    open_study(place, "shared")
    workers = [start(place, 8, seconds=0.2, in_flight=in_flight) for _ in range(2)]
    assert [_ended(worker) for worker in workers] == [0, 0]
    measured = _configs(place, FINISHED)
    assert len(measured) == 8
    assert len({tuple(c.items()) for c in measured}) == 8
    owners = {t.system_attrs[OWNER]["pid"] for t in open_study(place, "shared").trials}
    assert len(owners) == 2


def test_workers_may_all_be_the_first_at_a_new_place(place, start):
    workers = [start(place, 4) for _ in range(4)]
    assert [_ended(worker) for worker in workers] == [0] * 4
    assert len(_configs(place, FINISHED)) == 4


@pytest.mark.faults
@pytest.mark.parametrize("after", [0, 3])  # what comes first is drawn among equals
def test_a_killed_worker_loses_nothing_and_the_study_ends_like_an_uninterrupted_one(place, start, after):
    assert _ended(start(place, 7, dies_after=after)) == -signal.SIGKILL
    assert len(_configs(place, FINISHED)) == after
    assert len(_configs(place, (TrialState.RUNNING,))) == 1
    result = tune(SlowFormula(), ModelSampler(make_space()), 7, study=open_study(place, "shared"))
    straight = tune(SlowFormula(), ModelSampler(make_space()), 7)
    assert [t.candidate for t in result.trials] == [t.candidate for t in straight.trials]
    assert [t.latency_s for t in result.trials] == [t.latency_s for t in straight.trials]


@pytest.mark.faults
@pytest.mark.parametrize("after", [0, 3])
def test_a_killed_worker_of_a_study_of_its_own_loses_what_was_not_measured_alone(place, start, after):
    assert _ended(start(place, 7, shared=False, dies_after=after)) == -signal.SIGKILL
    assert [t.state for t in open_study(place, "shared").trials] == [TrialState.COMPLETE] * after
    study = open_study(place, "shared", shared=False)
    tune(SlowFormula(), ModelSampler(make_space()), 7, study=study)
    straight = tune(SlowFormula(), ModelSampler(make_space()), 7)
    assert _configs(place, FINISHED) == [t.candidate.config.decisions for t in straight.trials]


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_study_of_one_process_is_kept_as_a_shared_one(place, in_flight):
    space = make_space()
    first = [space.config({"a": 3, "b": 4}), space.config({"a": 5, "b": 6})]

    def kept(name, *, shared):
        for count in (3, 8):  # the second time it goes on
            study = open_study(place, name, shared=shared)
            tune(SlowFormula(in_flight=in_flight), ModelSampler(space), count, study=study, first=first)
        return open_study(place, name)

    alone, shared = kept("alone", shared=False), kept("shared", shared=True)
    assert alone.user_attrs == shared.user_attrs
    for one, other in zip(alone.trials, shared.trials, strict=True):
        assert (one.number, one.state, one.values) == (other.number, other.state, other.values)
        assert (one.params, one.distributions) == (other.params, other.distributions)
        assert (one.user_attrs, one.system_attrs) == (other.user_attrs, other.system_attrs)


def test_one_process_goes_on_with_what_others_left_unfinished(place):
    space, before = make_space(), open_study(place, "shared")
    tune(SlowFormula(), ModelSampler(space), 1, study=before)
    before.enqueue_trial({"a": 3, "b": 4})
    unclaimed = create_trial(state=TrialState.RUNNING)
    unclaimed.datetime_start = datetime.now() - timedelta(minutes=1)
    before.add_trial(unclaimed)
    tune(SlowFormula(), ModelSampler(space), 3, study=open_study(place, "shared", shared=False))
    trials = open_study(place, "shared").trials
    states = [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE]
    assert [trial.state for trial in trials] == states
    assert space.config(trials[1].params).decisions == {"a": 3, "b": 4}
    assert trials[1].value == latency_s({"a": 3, "b": 4})


@pytest.mark.faults
def test_a_worker_joins_while_another_is_killed(place, start):
    first = start(place, 1000, seconds=1.0)
    _wait_until(lambda: _configs(place, FINISHED), first)
    first.kill()
    assert _ended(start(place, 4)) == 0
    measured = _configs(place, FINISHED)
    assert len(measured) == len({tuple(c.items()) for c in measured}) == 4


def test_a_trial_that_nobody_claimed_holds_up_nobody_for_long(place):
    """It stands as that of a worker that was killed between asking for it and claiming it, a minute ago."""
    study = open_study(place, "shared")
    tune(SlowFormula(), ModelSampler(make_space()), 1, study=study)
    unclaimed = create_trial(state=TrialState.RUNNING)
    unclaimed.datetime_start = datetime.now() - timedelta(minutes=1)
    study.add_trial(unclaimed)
    result = tune(SlowFormula(), ModelSampler(make_space()), 3, study=study)
    assert len(result.trials) == 3
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE, TrialState.COMPLETE]


def test_what_a_living_worker_measures_is_left_to_it(place, start):
    other = start(place, 1000, seconds=5.0)
    study = open_study(place, "shared")
    _wait_until(lambda: any(CHOICE in t.system_attrs for t in study.trials), other)
    give_up_abandoned(study)
    assert [t.state for t in study.trials] == [TrialState.RUNNING]
    study.sampler = ModelSampler(make_space())
    mine = make_space().suggest(study.ask())
    theirs = make_space().config(study.trials[0].system_attrs[CHOICE])
    assert mine != theirs
    other.kill()
    other.join()
    give_up_abandoned(study)
    assert [t.state for t in study.trials] == [TrialState.PRUNED, TrialState.RUNNING]


def test_threads_share_a_sampler():
    space = make_space()
    study = optuna.create_study(sampler=ModelSampler(space))
    study.optimize(lambda trial: latency_s(space.suggest(trial).decisions), n_trials=24, n_jobs=4)
    assert len({tuple(sorted(t.params.items())) for t in study.trials}) == 24


def test_trials_of_other_hosts_count_as_abandoned_once_they_are_silent():
    def trial(owner, heartbeat=None, started=timedelta(0)):
        attrs = {OWNER: owner} if owner else {}
        attrs |= {} if heartbeat is None else {HEARTBEAT: time.time() - heartbeat}
        running = create_trial(state=TrialState.RUNNING, system_attrs=attrs)
        running.datetime_start = datetime.now() - started
        return running

    elsewhere = {"host": "elsewhere", "pid": 1, "started": 1}
    hour = timedelta(hours=1)
    assert not is_abandoned(trial(elsewhere))
    assert is_abandoned(trial(elsewhere, started=hour))
    assert not is_abandoned(trial(elsewhere, heartbeat=30.0, started=hour))
    assert is_abandoned(trial(elsewhere, heartbeat=1000.0, started=hour))
    assert is_abandoned(trial(None, started=hour))
    assert not is_abandoned(trial(None))
    reused = {"host": socket.gethostname(), "pid": os.getpid(), "started": -1}
    assert is_abandoned(trial(reused))


def test_a_heartbeat_goes_on_after_a_storage_failed_once(monkeypatch):
    monkeypatch.setattr("costmodel.search._ask.HEARTBEAT_EVERY_S", 0.01)
    trial, told = open_study(None, "beats").ask(), threading.Event()
    failures = [OSError("the database is away")]

    def write(*_):
        if failures:
            raise failures.pop()
        told.set()

    monkeypatch.setattr(trial.storage, "set_trial_system_attr", write)
    with heartbeat(lambda: [trial]):
        assert told.wait(20)


def test_what_waits_while_another_search_measures_has_a_heartbeat_too(monkeypatch):
    monkeypatch.setattr("costmodel.search._ask.HEARTBEAT_EVERY_S", 0.02)
    studies = [open_study(None, name) for name in ("one", "other")]
    silent = []

    class Watched(SlowFormula):
        def measure(self, candidates, platform, *, visit=0):
            measured = super().measure(candidates, platform, visit=visit)
            running = [t for s in studies for t in s.get_trials(states=(TrialState.RUNNING,))]
            silent.extend(trial.number for trial in running if HEARTBEAT not in trial.system_attrs)
            return measured

    runner = Watched(seconds=0.3)
    tune_together([Search(runner, ModelSampler(make_space()), 2, study=study) for study in studies])
    assert silent == []


@pytest.mark.filterwarnings("ignore:.* is experimental:optuna.exceptions.ExperimentalWarning")
@pytest.mark.skipif(find_spec("grpc") is None, reason="needs grpcio")
def test_a_grpc_proxy_serves_two_workers(tmp_path):
    import threading

    from optuna.storages import GrpcStorageProxy, run_grpc_proxy_server

    storage = open_study(str(tmp_path / "study.db"), "shared")._storage
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    threading.Thread(
        target=run_grpc_proxy_server, args=(storage,), kwargs={"port": port}, daemon=True
    ).start()
    proxies = [GrpcStorageProxy(port=port) for _ in range(2)]
    for proxy in proxies:
        proxy.wait_server_ready(timeout=600)
    studies = [optuna.load_study(study_name="shared", storage=proxy) for proxy in proxies]
    for study in studies:
        study.sampler = ModelSampler(make_space())
    for _ in range(4):
        for study in studies:
            make_space().suggest(study.ask())
    configs = [tuple(sorted(t.params.items())) for t in studies[0].trials]
    assert len(set(configs)) == 8


@pytest.mark.parametrize("place", ["study.txt", "study"])
def test_a_place_of_unknown_kind_is_refused(place):
    with pytest.raises(CostModelError, match="must be a file that ends in"):
        open_study(place, "s")


def test_a_place_that_cannot_be_opened_is_one_sentence():
    with pytest.raises(CostModelError, match=r"Cannot open the study .* correct the URL\."):
        open_study("nosuchdatabase://nowhere/x", "s")


def test_a_place_that_does_not_answer_is_to_be_tried_again():
    pytest.importorskip("psycopg2")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        place = f"postgresql://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(CostModelError, match=r"refused\. Run the same command again once .* has room"):
            open_study(place, "s")
