"""Workers do what jobs ask for, and may be killed at any moment."""

import random
import signal
import subprocess
import time

import optuna
import pytest
from command_line import command
from fresh_processes import Process
from work_until_killed import work_once

import costmodel
from costmodel.dataset import CardHeader, build_dataset
from costmodel.jobs import JobFile, JobStore, TuneSettings, work
from costmodel.records import RecordStore, read_records
from costmodel.testing import gpu_landscape

optuna.logging.set_verbosity(optuna.logging.WARNING)
FINISHED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)
KILLS = 4
WORKLOADS = ("matmul-m512-n512-k512", "matmul-m128-n768-k768")
HEADER = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """The path of a dataset, of which a measurement takes milliseconds."""
    folder = tmp_path_factory.mktemp("landscape")
    landscape = gpu_landscape(seed=2, workloads=WORKLOADS, configs_per_workload=40, sms=(8, 132))
    with RecordStore(folder / "records.jsonl") as store:
        store.append(landscape.to_measurements())
    build_dataset([folder / "records.jsonl"], folder / "data", header=HEADER)
    return str(folder / "data")


def studies(place):
    """All studies of a store, by name."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{place}")
    names = sorted(optuna.get_all_study_names(storage))
    return {name: optuna.load_study(study_name=name, storage=storage) for name in names}


def measured(study):
    """What was measured of each trial that was told, in order."""
    trials = study.get_trials(states=FINISHED)
    return [(tuple(sorted(trial.params.items())), trial.value) for trial in trials]


@pytest.fixture
def wanted(replayed):
    """Two tasks, of 6 candidates each on average."""
    settings = TuneSettings(replay=replayed, learn_from="nothing", seed=3)
    return JobFile(
        workloads=dict.fromkeys(WORKLOADS, 1.0),
        sms=(8,),
        trials=6,
        slice=3,
        rule="expected-gain",
        settings=settings,
    ).job()


def test_a_job_finds_what_tune_finds(tmp_path, replayed):
    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=replayed, learn_from="nothing")
    id_ = store.submit(JobFile(workloads=WORKLOADS[:1], sms=(8, 132), trials=8, settings=settings).job())
    done = []
    assert work(store, once=True, on_slice=done.append) == len(done) == 2
    for task, sms in zip(store.show(id_).tasks, (8, 132), strict=True):
        alone = costmodel.tune(WORKLOADS[0], sms=sms, trials=8, replay=replayed, learn_from="nothing")
        assert task.answer.latency_s == alone.best.latency_s[0]
        assert task.answer.candidate == alone.best.candidate
        assert task.answer.sentences == alone.answer
        assert task.expected_gain == alone.expected_gain


def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path, wanted):
    """No trial that was told is lost or told again, and a kill costs one trial at most."""
    undisturbed, place = str(tmp_path / "undisturbed.db"), str(tmp_path / "jobs.db")
    JobStore(undisturbed).submit(wanted)
    work(JobStore(undisturbed), once=True)
    store = JobStore(place)
    store.submit(wanted)
    rng, longest_s, kills = random.Random(1), 0.5, 0
    known = {}
    while kills < KILLS:
        worker = Process(target=work_once, args=(place,))
        worker.start()
        worker.join(rng.uniform(0.0, longest_s))
        kills += worker.is_alive()
        worker.kill()
        worker.join()
        assert worker.exitcode in (0, -signal.SIGKILL)
        now = {name: measured(study) for name, study in studies(place).items()}
        assert all(now[name][: len(told)] == told for name, told in known.items())
        longest_s = 0.5 if now != known else longest_s * 1.5
        known = now
        if worker.exitcode == 0:
            break
    work_once(place)
    shown, straight = store.show(1), JobStore(undisturbed).show(1)
    assert kills > 1
    assert shown.state == straight.state == "done"
    assert [task.best_s for task in shown.tasks] == [task.best_s for task in straight.tasks]
    assert [task.answer for task in shown.tasks] == [task.answer for task in straight.tasks]
    told, expected = ([measured(s) for s in studies(each).values()] for each in (place, undisturbed))
    assert told == expected
    given_up = sum(len(s.trials) for s in studies(place).values()) - sum(map(len, told))
    assert given_up <= kills


def test_a_job_that_is_cancelled_while_it_runs_stops(tmp_path, wanted, monkeypatch):
    monkeypatch.setattr("costmodel.jobs._work._TELL_EVERY_S", 0.0)
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(wanted)
    renew = store.renew

    def cancel_at_third(lease, made):
        if made == 3:
            JobStore(store.place).cancel(id_)
        return renew(lease, made)

    monkeypatch.setattr(store, "renew", cancel_at_third)
    done = []
    work(store, once=True, on_slice=done.append)
    assert [part.progress for part in done] == [None]
    assert "was cancelled" in done[0].reason
    (study,) = studies(store.place).values()
    assert len(measured(study)) == 3
    (task, _) = store.show(id_).tasks
    assert (task.worker, task.deaths) == (None, 0)


def test_what_cannot_be_tuned_fails_and_the_rest_is_done(tmp_path, replayed):
    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=replayed, learn_from="nothing")
    names = ("matmul-m16-n16-k16", WORKLOADS[0])
    id_ = store.submit(JobFile(workloads=names, sms=(8,), trials=2, settings=settings).job())
    work(store, once=True)
    first, second = store.show(id_).tasks
    assert (first.state, second.state) == ("failed", "done")
    assert "matmul-m16-n16-k16" in first.error


@pytest.mark.tvm
def test_a_real_tune_goes_on_where_its_worker_was_killed(tmp_path):
    pytest.importorskip("tvm")
    place, records, trials = str(tmp_path / "jobs.db"), tmp_path / "records", 4
    store = JobStore(place)
    id_ = store.submit(
        JobFile(workloads=("matmul-m32-n32-k32",), sms=(1,), trials=trials, runner="cpu").job()
    )
    line = command("jobs", "work", "--store", place, "--runner", "cpu", "--records", records, "--once")

    def stored():
        return [m for path in records.glob("*.jsonl") for m in read_records(path)]

    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as killed:
        while len(stored()) < 2:
            assert killed.poll() is None, killed.stderr.read().decode()
            time.sleep(0.02)
        killed.kill()
    before = stored()
    assert store.show(id_).state == "waiting"
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    after = stored()
    assert "slices done: 1" in done.stdout
    assert after[: len(before)] == before
    assert len({m.key for m in after}) == len(after)
    (task,) = store.show(id_).tasks
    assert (task.state, task.trials, task.leases, task.deaths) == ("done", trials, 2, 1)
    (study,) = studies(place).values()
    values = [trial.value for trial in study.get_trials(states=FINISHED)]
    assert len(values) == trials
    recorded = [m.latency_s for m in after]
    assert all(value is None or value in recorded for value in values)  # none was measured again
    assert task.answer.latency_s == min(value for value in values if value is not None)
