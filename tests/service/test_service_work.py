"""Workers do what jobs ask for, and may be killed at any moment."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
from fake_records import fake_measurement
from msgspec.structs import replace
from postgres import end_connections
from sqlalchemy.exc import DatabaseError
from work_until_killed import HEADER, WORKLOADS, kill_workers, landscape, told, two_tasks

import costmodel
from costmodel.collector import Engine, LocalEngine
from costmodel.dataset import build_dataset, load_dataset
from costmodel.errors import CostModelError, DeviceUnavailableError, MissingExtraError
from costmodel.records import RecordStore, read_records
from costmodel.service import JobFile, JobStore, work
from costmodel.service._job import TuneSettings
from costmodel.tuning import Replay
from costmodel.tuning._places import _check_device

pytestmark = pytest.mark.white_box

optuna.logging.set_verbosity(optuna.logging.WARNING)
KILLS = 4


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    return landscape(tmp_path_factory.mktemp("landscape"))


def test_a_store_that_every_user_may_write_to_is_not_worked_on(tmp_path):
    store = JobStore(str(tmp_path / "jobs.db"))
    (tmp_path / "jobs.db").chmod(0o666)
    with pytest.raises(CostModelError, match=r"must not be writable for every user, but it is: .*chmod o-w"):
        work(store, once=True)
    (tmp_path / "jobs.db").chmod(0o664)
    assert work(store, once=True) == 0


def test_a_campaign_writes_to_no_folder_of_other_files(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("Mine.")
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(JobFile(campaign="cpu-quick", out=str(tmp_path / "out")).job())
    assert work(store, once=True) == 1
    (task,) = store.show(id_).tasks
    assert (task.state, "must be new, empty or that of a campaign" in task.error) == ("failed", True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_a_campaign_writes_where_the_worker_lets_it(tmp_path):
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "campaigns" / "link").symlink_to(tmp_path)
    store = JobStore(str(tmp_path / "jobs.db"))
    for out in ("elsewhere", "campaigns/../elsewhere", "campaigns/link/elsewhere", "campaigns-too"):
        id_ = store.submit(JobFile(campaign="cpu-quick", out=str(tmp_path / out)).job())
        assert work(store, once=True, campaigns=tmp_path / "campaigns") == 1
        (task,) = store.show(id_).tasks
        assert (task.state, "must write to a folder in" in task.error) == ("failed", True)
        assert not (tmp_path / "elsewhere").exists()


def test_a_campaign_may_write_below_the_folder_of_campaigns(tmp_path, monkeypatch):
    asked = []

    def collect(campaign, out, *, engine, on_measurement):
        asked.append(out)
        raise CostModelError("That will do.")

    monkeypatch.setattr("costmodel.service._work.collect", collect)
    store, out = JobStore(str(tmp_path / "jobs.db")), str(tmp_path / "campaigns" / "mine" / "first")
    store.submit(JobFile(campaign="cpu-quick", out=out).job())
    work(store, once=True, campaigns=tmp_path / "campaigns")
    assert asked == [out]


def test_a_job_finds_what_tune_finds(tmp_path, replayed):
    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=replayed, learn_from="nothing")
    id_ = store.submit(JobFile(workloads=WORKLOADS[:1], sms=(8, 132), trials=8, settings=settings).job())
    done = []
    assert work(store, once=True, on_slice=done.append) == len(done) == 2
    for task, sms in zip(store.show(id_).tasks, (8, 132), strict=True):
        alone = costmodel.tune(WORKLOADS[0], sms=sms, trials=8, on=Replay(replayed), prior=None)
        assert task.answer.latency_s == alone.best.latency_s[0]
        assert task.answer.candidate == alone.best.candidate
        assert task.answer.sentences == alone.answer
        assert task.expected_gain == alone.expected_gain


def test_a_device_measures_first_what_was_best_on_another(tmp_path, replayed):
    """Two sites by replays of one landscape, whose measurements stand for both GPUs."""
    here = load_dataset(replayed).to_measurements()
    there = [replace(each, platform=on_other_gpu(each.platform)) for each in here]
    with RecordStore(tmp_path / "records.jsonl") as records:
        records.append([*here, *there])
    build_dataset([tmp_path / "records.jsonl"], tmp_path / "data", header=HEADER)
    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=str(tmp_path / "data"), learn_from="nothing")
    devices = ("landscape GPU", "other GPU 2")
    wanted = JobFile(workloads=WORKLOADS[:1], sms=(8,), trials=8, devices=devices, settings=settings)
    id_ = store.submit(wanted.job())
    for device in devices:
        work(store, once=True, device=device)
    first, second = store.show(id_).tasks
    assert (first.trials, second.trials) == (8, 8)
    measured = [latency_s for _, latency_s in list(told(store.place).values())[1]]
    assert measured[0] == first.answer.latency_s
    assert second.answer.latency_s <= first.answer.latency_s


def on_other_gpu(platform):
    return replace(platform, device=replace(platform.device, name="other GPU 2"))


def test_a_task_for_another_gpu_is_left_to_others_and_not_tried_again(tmp_path, monkeypatch):
    """The worker does not know its GPU until it has opened it."""
    asked = []

    def tune(*_, on, **settings):
        asked.append(on.device)
        on.kept.gpu = "NVIDIA H200"
        _check_device(on, SimpleNamespace(device=SimpleNamespace(name=on.kept.gpu)))
        raise CostModelError("The right GPU.")

    monkeypatch.setattr("costmodel.service._work.tune", tune)
    store, done = JobStore(str(tmp_path / "jobs.db")), []
    job = JobFile(workloads=WORKLOADS[:1], runner="cuda", devices=("h100", "h200"), sms=(8, 16)).job()
    id_ = store.submit(job)
    work(store, engine=NoEngine(), once=True, on_slice=done.append)
    assert asked == ["h100", "h200", "h200"]
    assert done[0].reason == "The GPU here must be h100, but it is NVIDIA H200. Run it where there is one."
    told_of = [(task.state, task.leases, task.deaths, task.error) for task in store.show(id_).tasks]
    assert told_of == [
        ("open", 1, 0, ""),
        ("failed", 1, 0, "The right GPU."),
        ("open", 0, 0, ""),
        ("failed", 1, 0, "The right GPU."),
    ]


class NoEngine(Engine):
    """Nothing is built on it."""

    def _start(self, job):
        raise NotImplementedError

    def workers(self):
        return ()

    def close(self):
        pass


@pytest.mark.tvm
def test_what_one_job_built_the_next_one_does_not_build_again(tmp_path):
    pytest.importorskip("tvm")
    store = JobStore(str(tmp_path / "jobs.db"))
    job = JobFile(workloads=("matmul-m32-n32-k32",), sms=(1,), trials=2, runner="cpu").job()
    built = []
    for _ in range(2):
        store.submit(job)
        assert work(store, once=True, records=tmp_path / "records") == 1
        kernels = (tmp_path / "records" / "kernels").rglob("*.so")
        built.append({path.name: path.stat().st_mtime_ns for path in kernels})
    assert len(built[0]) == 2
    assert built[0] == built[1]


@pytest.mark.tvm
def test_one_pool_of_builders_serves_all_slices(tmp_path, monkeypatch):
    pytest.importorskip("tvm")
    opened = []

    def engine(*settings):
        opened.append(LocalEngine(*settings))
        return opened[-1]

    monkeypatch.setattr("costmodel.service._building.LocalEngine", engine)
    store = JobStore(str(tmp_path / "jobs.db"))
    job = JobFile(workloads=("matmul-m32-n32-k32",), sms=(1,), trials=2, slice=1, runner="cpu")
    id_ = store.submit(job.job())
    assert work(store, once=True, records=tmp_path / "records") == 2
    assert store.show(id_).tasks[0].trials == 2
    assert len(opened) == 1
    assert work(store, once=True, records=tmp_path / "records") == 0
    assert len(opened) == 1


def test_what_a_campaign_had_before_is_not_made_under_a_lease(tmp_path, monkeypatch):
    """A worker that dies of its first measurement would never be found to have died in vain."""
    known, new = fake_measurement(tile=1), fake_measurement(tile=2)

    def collect(campaign, out, *, engine, on_measurement):
        for measurement in (*read_records(records), new):
            on_measurement(measurement)
        return SimpleNamespace(stored=2, measured_on="", sentence="", finished=True)

    store, made = JobStore(str(tmp_path / "jobs.db")), []
    records = tmp_path / "out" / "measurements.jsonl"
    with RecordStore(records) as before:
        before.append([known])
    store.submit(JobFile(campaign="cpu-quick", out=str(records.parent)).job())
    monkeypatch.setattr("costmodel.service._work.collect", collect)
    monkeypatch.setattr("costmodel.service._work._TELL_EVERY_S", 0.0)
    monkeypatch.setattr(store, "renew", lambda _, count: made.append(count) or True)
    work(store, once=True)
    assert made == [1]


@pytest.mark.faults
def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path):
    """No trial that was told is lost or told again, and a kill costs one trial at most.

    More of it: experiments/kill_the_workers.
    """
    tally = kill_workers(KILLS, 1, tmp_path, trials=6, size=3)
    assert (tally.kills, tally.lost, tally.different) == (KILLS, 0, 0)
    assert tally.trials == 12 * tally.jobs
    assert tally.given_up <= KILLS


@pytest.mark.parametrize(("is_gone", "state"), [(True, "open"), (False, "failed")])
def test_a_server_that_ends_costs_no_task_whatever_its_driver_calls_it(
    tmp_path, replayed, monkeypatch, is_gone, state
):
    """Psycopg tells of a server that ends in the middle of an answer by an error of no class of its own."""

    def tune(*_, **settings):
        raise DatabaseError("SELECT 1", {}, Exception("gone"), connection_invalidated=is_gone)

    monkeypatch.setattr("costmodel.service._work.tune", tune)
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(two_tasks(replayed, trials=6, size=3))
    with pytest.raises(CostModelError, match="must be a database that answers") if is_gone else nullcontext():
        work(store, once=True)
    assert store.show(id_).tasks[0].state == state


def test_a_job_that_is_cancelled_while_it_runs_stops(tmp_path, replayed, monkeypatch):
    monkeypatch.setattr("costmodel.service._work._TELL_EVERY_S", 0.0)
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(two_tasks(replayed, trials=6, size=3))
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
    assert [len(trials) for trials in told(store.place).values()] == [3]
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


def test_each_job_has_studies_of_its_own(tmp_path, replayed):
    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=replayed, learn_from="nothing")
    for trials in (2, 1):
        store.submit(JobFile(workloads=WORKLOADS[:1], trials=trials, settings=settings).job())
    work(store, once=True)
    assert [len(trials) for trials in told(store.place).values()] == [2, 1]


@pytest.mark.parametrize("is_campaign", [True, False])
def test_a_worker_whose_disk_is_full_leaves_the_task_to_others(tmp_path, replayed, monkeypatch, is_campaign):
    """Files of campaigns and studies are flushed by Python; SQLite flushes its own."""

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    store = JobStore(str(tmp_path / "jobs.db"))
    settings = TuneSettings(replay=replayed, learn_from="nothing")
    tuned = JobFile(workloads=WORKLOADS[:1], trials=2, settings=settings)
    asked = JobFile(campaign="cpu-quick", out=str(tmp_path / "out")) if is_campaign else tuned
    id_ = store.submit(asked.job())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CostModelError, match="No space left on device"):
        work(store, once=True)
    (task,) = store.show(id_).tasks
    assert (task.state, task.worker, task.deaths, task.error) == ("open", None, 0, "")


def test_connections_that_the_server_ended_cost_nothing(tmp_path, postgres_place, replayed, monkeypatch):
    monkeypatch.setattr("costmodel.service._work._TELL_EVERY_S", 0.0)
    calm = JobStore(str(tmp_path / "jobs.db"))
    calm.submit(two_tasks(replayed, trials=4, size=2))
    work(calm, once=True)
    store = JobStore(postgres_place)
    id_ = store.submit(two_tasks(replayed, trials=4, size=2))
    renew, ended = store.renew, []

    def renew_and_end(lease, made):
        is_held = renew(lease, made)
        ended.append(end_connections(postgres_place))
        return is_held

    monkeypatch.setattr(store, "renew", renew_and_end)
    work(store, once=True)
    assert min(ended) > 0
    assert store.show(id_).state == "done"
    trials_of = [[len(trials) for trials in told(place).values()] for place in (postgres_place, calm.place)]
    assert trials_of[0] == trials_of[1]
    assert sum(trials_of[0]) == 8


def test_a_worker_with_lanes_that_nobody_serves_leaves_the_task_to_others(tmp_path, monkeypatch):
    pytest.importorskip("tvm")
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(JobFile(workloads=WORKLOADS[:1], runner="cuda").job())
    with pytest.raises(DeviceUnavailableError, match="Lanes must have an MPS daemon"):
        work(store, once=True, lanes=True)
    (task,) = store.show(id_).tasks
    assert (task.state, task.worker, task.deaths, task.error) == ("open", None, 0, "")


def test_lanes_are_nothing_to_what_is_replayed(tmp_path, replayed):
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(two_tasks(replayed, trials=2, size=2))
    work(store, once=True, lanes=True)
    assert store.show(id_).state == "done"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="needs a machine without a GPU")
def test_a_worker_without_the_device_leaves_the_task_to_others(tmp_path):
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(JobFile(workloads=WORKLOADS[:1], runner="cuda").job())
    with pytest.raises((DeviceUnavailableError, MissingExtraError)):
        work(store, once=True)
    (task,) = store.show(id_).tasks
    assert (task.state, task.worker, task.deaths, task.error) == ("open", None, 0, "")
