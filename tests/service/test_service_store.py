"""Jobs in a database: what is next, who has what, and what becomes of tasks whose workers are gone."""

import sqlite3
from contextlib import closing, contextmanager
from itertools import chain

import msgspec
import pytest
import sqlalchemy
from fresh_processes import Pipe, Process
from work_until_killed import take_all

from costmodel.databases import parse_database
from costmodel.errors import CostModelError
from costmodel.search._study import open_study
from costmodel.service import JobFile, JobStore, work
from costmodel.service._job import TuneSettings
from costmodel.service._leases import LEASE_S, LeaseLostError
from costmodel.service._status import Answer
from costmodel.service._store import TaskProgress

pytestmark = pytest.mark.white_box

NAMES = ("matmul-m16-n1024-k1024", "matmul-m64-n64-k64", "matmul-m128-n768-k3072")


class Clock:
    """Goes on only where it is told to."""

    def __init__(self):
        self.now_s = 1e9

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(place, clock):
    return JobStore(place, clock=clock)


@contextmanager
def closing_engine(place):
    """An engine of one's own on the database of a store."""
    engine = sqlalchemy.create_engine(parse_database(place))
    yield engine
    engine.dispose()


def job(*names, trials=8, **settings):
    return JobFile(workloads=names or NAMES[:1], trials=trials, slice=4, **settings).job()


def progress(trials, latency_s=1e-3, **settings):
    return TaskProgress(trials, Answer(("Run it.",), latency_s), **settings)


def test_a_job_is_told_as_it_was_submitted(store):
    wanted = job(*NAMES, sms=(8, 32), rule="gradient", name="three")
    id_ = store.submit(wanted, submitter="ann", priority=3)
    assert store.job(id_) == wanted
    shown = store.show(id_)
    assert (shown.name, shown.submitter, shown.priority, shown.state) == ("three", "ann", 3, "waiting")
    assert (shown.total, shown.trials, len(shown.tasks)) == (48, 0, 6)
    assert shown.tasks[1].name == f"{NAMES[0]} on 32 SMs"
    second = store.submit(job())
    assert [each.id for each in store.list()] == [second, id_]


@pytest.mark.parametrize(
    ("settings", "largest"),
    [
        ({}, 16),
        ({"slice": 4}, 4),
        ({"slice": 99}, 16),
        ({"rule": "gradient"}, 4),
        ({"rule": "gradient", "trials": 2}, 1),
    ],
)
def test_a_slice_lets_the_rule_choose_in_time(store, settings, largest):
    store.submit(JobFile(workloads=NAMES, **settings).job())
    assert store.lease().trials == largest


def test_a_job_ends_when_as_much_is_measured_as_was_asked_for(store):
    id_ = store.submit(job(*NAMES[:2]))
    asked = []
    while lease := store.lease():
        asked.append((lease.position, lease.trials))
        store.end(lease, progress(lease.trials, 1e-3 / len(asked)))
    assert asked == [(0, 4), (1, 4), (0, 8), (1, 8)]
    shown = store.show(id_)
    assert (shown.state, shown.trials) == ("done", 16)
    assert shown.tasks[0].best_s == (1e-3, 1e-3 / 3)
    assert shown.latency_s == pytest.approx(1e-3 / 3 + 1e-3 / 4)


def test_each_device_measures_its_own_tasks_and_no_more(store):
    id_ = store.submit(job(*NAMES[:2], devices=("h100", "h200")))
    done = {}
    for device in ("NVIDIA H200", "NVIDIA L40S", "NVIDIA H100 80GB HBM3"):
        done[device] = []
        while lease := store.lease(device=device):
            done[device].append((lease.position, lease.trials))
            store.end(lease, progress(lease.trials))
        states = [task.state for task in store.show(id_).tasks]
        assert states == ["done" if device.endswith("HBM3") else "open", "done"] * 2
    assert done["NVIDIA H200"] == [(1, 4), (3, 4), (1, 8), (3, 8)]
    assert done["NVIDIA H100 80GB HBM3"] == [(0, 4), (2, 4), (0, 8), (2, 8)]
    assert done["NVIDIA L40S"] == []
    assert [task.name.rpartition(" of ")[2] for task in store.show(id_).tasks] == ["h100", "h200"] * 2


def test_what_names_no_device_is_for_any_and_who_knows_of_none_takes_any(store):
    store.submit(job(NAMES[0]))
    store.submit(job(NAMES[1], devices=("h100",)))
    first, second = store.lease(device="NVIDIA H200"), store.lease()
    assert (first.job, second.job) == (1, 2)
    assert store.lease(device="NVIDIA H200") is None


def test_a_store_of_before_devices_gets_their_table(tmp_path):
    store = JobStore(str(tmp_path / "jobs.db"))
    store.submit(job())
    with closing(sqlite3.connect(store.place)) as before, before:
        before.execute("DROP TABLE costmodel_devices")
    assert JobStore(store.place).lease(device="NVIDIA H200").job == 1


@pytest.mark.parametrize(
    "settings",
    [{"runner": "cpu"}, {"settings": TuneSettings(device="h200")}],
)
def test_devices_are_named_once_and_for_gpus(settings):
    with pytest.raises(CostModelError, match="must name its devices once, and none for a CPU"):
        job(devices=("h100",), **settings)


def test_the_gpu_here_decides_on_what_is_measured_on_gpus_alone(store):
    """A worker that has opened an H200 replays what was recorded on any, and measures for no other."""
    store.submit(job(devices=("h100",)))
    store.submit(job(devices=("h100",), runner="cuda"))
    store.submit(job(devices=("h200",), runner="cuda"))
    taken = [store.lease(gpu="NVIDIA H200"), store.lease(device="h100", gpu="NVIDIA H200")]
    assert [lease.job for lease in taken] == [1, 3]
    assert store.lease(device="h100", gpu="NVIDIA H200") is None
    assert store.lease(device="h100").job == 2


@pytest.mark.parametrize("devices", [("",), ("h100", " "), (1,)])
def test_a_device_has_a_name(devices):
    with pytest.raises(CostModelError, match=r"must (have a name|be a text)"):
        job(devices=devices)


def test_a_single_device_needs_no_list():
    assert job(devices="h100").devices == ("h100",)


@pytest.mark.parametrize("given", [{"sms": (8,)}, {"devices": ("h100",)}])
def test_a_campaign_says_itself_what_it_measures(given, tmp_path):
    with pytest.raises(CostModelError, match="must be asked for without sms and devices"):
        JobFile(campaign="cpu-quick", out=str(tmp_path), **given).job()


def test_all_names_of_a_store_have_one_study_of_a_task(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.db").symlink_to(tmp_path / "jobs.db")
    places = [
        str(tmp_path / "jobs.db"),
        str(tmp_path / "elsewhere" / "link.db"),
        f"sqlite:///{tmp_path}/jobs.db",
    ]
    stores = [JobStore(place) for place in places]
    stores[0].submit(job())
    lease = stores[0].lease()
    assert {store.study_place(lease) for store in stores} == {
        str(tmp_path / "jobs.studies" / f"{lease.key}.journal")
    }


def test_a_study_that_an_earlier_version_began_in_the_store_goes_on_there(tmp_path):
    store = JobStore(str(tmp_path / "jobs.db"))
    store.submit(job(*NAMES[:2]))
    first, second = store.lease(), store.lease()
    open_study(store.place, f"{second.key}-space-latency")
    assert store.study_place(second) == store.place
    assert store.study_place(first) != store.place


def test_what_a_used_up_space_leaves_goes_to_the_other_tasks(store):
    store.submit(job(*NAMES[:2]))
    store.end(store.lease(), progress(3, is_done=True))
    asked = []
    while lease := store.lease():
        asked.append((lease.position, lease.trials))
        store.end(lease, progress(lease.trials))
    assert asked == [(1, 4), (1, 8), (1, 12), (1, 13)]


def test_a_task_that_fails_leaves_the_others_their_share(store):
    id_ = store.submit(job(*NAMES[:2]))
    store.fail(store.lease(), "No such kernel.")
    for trials in (4, 8):
        lease = store.lease()
        assert (lease.position, lease.trials) == (1, trials)
        store.end(lease, progress(trials))
    assert store.lease() is None
    shown = store.show(id_)
    assert (shown.state, shown.tasks[0].error, shown.tasks[1].state) == ("failed", "No such kernel.", "done")


def test_the_rule_of_a_job_shares_out_its_measurements(store):
    weights = {NAMES[0]: 1.0, NAMES[1]: 5.0}
    store.submit(JobFile(workloads=weights, trials=8, slice=4, rule="expected-gain").job())
    for _ in weights:
        lease = store.lease()
        store.end(lease, progress(4, expected_gain=0.1))
    assert store.lease().position == 1


def test_higher_priorities_come_first_then_who_was_served_least(store, clock):
    first = store.submit(job(*NAMES), submitter="ann")
    other = store.submit(job(*NAMES), submitter="bob")
    urgent = store.submit(job(trials=4), submitter="ann", priority=101)
    assert store.lease().job == urgent
    clock.now_s += 10.0  # ann has had ten seconds of a worker, bob none
    assert store.lease().job == other
    clock.now_s += 15.0  # ann 25, bob 15
    assert store.lease().job == other
    clock.now_s += 30.0  # ann 55, bob 75
    assert store.lease().job == first


def test_what_was_served_the_day_before_does_not_count(store, clock):
    store.submit(job(trials=4), submitter="ann")
    lease = store.lease()
    clock.now_s += 60.0
    store.end(lease, progress(4))
    again, _ = (store.submit(job(*NAMES), submitter=name) for name in ("ann", "bob"))
    clock.now_s += 100_000.0
    assert store.lease().job == again


def test_who_had_the_quota_of_a_day_waits(tmp_path, clock):
    place = str(tmp_path / "jobs.db")
    bound, free = JobStore(place, clock=clock, quota_s=50.0), JobStore(place, clock=clock)
    first = bound.submit(job(trials=4), submitter="ann")
    lease = bound.lease()
    clock.now_s += 60.0
    bound.end(lease, progress(4))
    urgent = bound.submit(job(*NAMES), submitter="ann", priority=200)
    assert bound.lease() is None
    other = bound.submit(job(trials=4), submitter="bob")
    assert bound.lease().job == other
    assert free.lease().job == urgent  # a worker without the quota
    clock.now_s += 100_000.0
    assert bound.lease().job == urgent
    assert first != urgent


def test_a_worker_takes_only_what_it_can_measure(store):
    cpu = store.submit(job(runner="cpu"))
    assert store.lease(runner="cuda") is None
    assert store.lease(runner="cpu").job == cpu


def test_a_lease_runs_out_unless_it_is_renewed(store, clock, monkeypatch):
    """The worker is on another host, of which nobody here knows if it lives."""
    store.submit(job())
    with monkeypatch.context() as there:
        there.setattr("socket.gethostname", lambda: "elsewhere")
        lease = store.lease()
    clock.now_s += 0.9 * LEASE_S
    assert store.renew(lease, made=1)
    clock.now_s += 0.9 * LEASE_S
    assert store.lease() is None
    clock.now_s += 0.2 * LEASE_S
    taken = store.lease()
    assert (taken.task, taken.number, taken.trials) == (lease.task, 1, lease.trials)
    assert not store.renew(lease, made=1)
    with pytest.raises(LeaseLostError, match="another took task 0"):
        store.end(lease, progress(4))
    store.end(taken, progress(4))
    assert store.show(taken.job).tasks[0].deaths == 1


def test_processes_that_ask_at_once_never_get_the_same_task(place):
    store = JobStore(place)
    names = [f"matmul-m64-n64-k{k}" for k in range(64, 64 * 13, 64)]
    store.submit(job(*names))
    pipes = [Pipe() for _ in range(3)]
    takers = [Process(target=take_all, args=(place, its)) for _, its in pipes]
    for taker in takers:
        taker.start()
    try:
        taken = [ours.recv() for ours, _ in pipes]
        assert sorted(chain(*taken)) == sorted(range(1, 13))
        assert store.show(1).state == "running"
    finally:
        for taker in takers:
            taker.kill()
            taker.join()
    assert store.show(1).state == "waiting"  # they are known to be gone at once


def test_a_task_that_kills_its_workers_fails(store, place):
    id_ = store.submit(job())
    for _ in range(3):
        ours, its = Pipe()
        taker = Process(target=take_all, args=(place, its))
        taker.start()
        assert ours.recv() == [1]
        taker.kill()
        taker.join()
    assert store.lease() is None
    (task,) = store.show(id_).tasks
    assert (task.state, task.deaths) == ("failed", 3)
    assert task.error == "3 workers died on it before they measured anything."


def test_workers_of_two_versions_share_a_store(store, place, clock):
    """A newer one adds what it needs to the tables, an older one takes no notice; neither loses a lease."""
    id_ = store.submit(job(*NAMES[:2]))
    held = store.lease()
    with closing_engine(place) as engine, engine.begin() as connection:
        connection.execute(sqlalchemy.text("ALTER TABLE costmodel_tasks ADD COLUMN later TEXT"))
        connection.execute(sqlalchemy.text("CREATE TABLE costmodel_later (id INTEGER PRIMARY KEY)"))
        connection.execute(sqlalchemy.text("DROP TABLE costmodel_usage"))  # as before it was introduced
    newer = JobStore(place, clock=clock)  # which makes the table that it lacks
    newer.report_usage()
    other = newer.lease()
    assert other.position != held.position
    store.end(held, progress(4))
    newer.end(other, progress(4))
    store.submit(job())
    assert [task.trials for task in store.show(id_).tasks] == [4, 4]


def test_a_restored_copy_goes_on_where_it_was_made(tmp_path, clock, monkeypatch):
    place, copy = str(tmp_path / "jobs.db"), str(tmp_path / "copy.db")
    store = JobStore(place, clock=clock)
    id_ = store.submit(job())
    store.end(store.lease(), progress(4))
    lost = store.lease()
    with closing(sqlite3.connect(place)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    store.end(lost, progress(8))  # after the copy was made
    restored = JobStore(copy, clock=clock)
    assert restored.show(id_).trials == 4
    assert restored.lease() is None  # the worker of the lease lives
    monkeypatch.setattr("costmodel.liveness.socket.gethostname", lambda: "another")
    clock.now_s += LEASE_S + 1.0
    again = restored.lease()
    assert (again.key, again.trials) == (lost.key, lost.trials)


def test_a_cancelled_job_is_done_no_further(store):
    id_ = store.submit(job(*NAMES))
    lease = store.lease()
    store.cancel(id_)
    assert not store.renew(lease, made=1)
    assert store.lease() is None
    assert store.show(id_).state == "cancelled"
    with pytest.raises(CostModelError, match=f"job {id_} is cancelled"):
        store.cancel(id_)


@pytest.mark.parametrize(
    ("text", "told"), [("{", "truncated"), ('{"name": "x"}', "missing required field `tasks`")]
)
def test_a_corrupted_specification_is_refused_by_name(store, place, text, told):
    id_, whole = store.submit(job(name="mine")), store.submit(job())
    url = parse_database(place)
    with sqlalchemy.create_engine(url).begin() as connection:
        connection.execute(
            sqlalchemy.text("UPDATE costmodel_jobs SET specification = :text WHERE id = :id"),
            {"text": text, "id": id_},
        )
    with pytest.raises(CostModelError, match=rf"Job {id_} \(mine\) of .* must be .*{told}"):
        store.job(id_)
    work(store, once=True, on_slice=lambda part: store.cancel(whole) if part.job == id_ else None)
    assert store.show(id_).tasks[0].error.startswith(f"Job {id_} (mine)")


def test_an_unknown_job_is_refused(store):
    with pytest.raises(CostModelError, match="none with the id 7"):
        store.show(7)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("jobs.txt", "must be a file that ends in .db"),
        ("nosuchdatabase://nowhere/x", "must be at a URL such as"),
        ("sqlite:////nowhere/that/is/x.db", "must be a database that answers"),
    ],
)
def test_a_place_that_is_no_store_is_one_sentence(place, told):
    with pytest.raises(CostModelError, match=told):
        JobStore(place)


def test_a_network_weighs_its_workloads_by_their_calls():
    tasks = JobFile(network="resnet50-n1").job().tasks
    weights = {task.workload: task.weight for task in tasks}
    assert weights["conv2d_bias_add_relu-n1-c256-h14-w14-o1024-k1-s1"] == 5.0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "must have workloads, a network or a campaign, but got none"),
        ({"workloads": NAMES, "network": "resnet50-n1"}, "but got workloads and network"),
        ({"campaign": "cpu-quick"}, "give `out`"),
        ({"workloads": ("matmul",)}, "Unknown workload"),
        ({"workloads": NAMES[:1], "sms": (8, 8)}, "each once"),
        ({"workloads": NAMES[:1] * 2}, r"each workload once, but names .* `\[workloads\]`, and `\".* = 2`"),
        ({"workloads": {"matmul-m016-n16-k16": 1.0, "matmul-m16-n16-k16": 2.0}}, "each workload once"),
    ],
)
def test_a_job_that_is_not_sound_is_refused(settings, told):
    with pytest.raises(CostModelError, match=told):
        JobFile(**settings).job()


def test_a_job_file_says_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('workloads = ["a"]\ntrails = 8\n')
    with pytest.raises(CostModelError, match=r"job.toml must be a job file, but: .*unknown.*trails"):
        JobFile.load(path)
    with pytest.raises(CostModelError, match="jobs submit --help"):
        JobFile.load(tmp_path / "other.toml")


def test_a_campaign_is_stored_whole(store):
    campaign = JobFile(campaign="cpu-quick", out="out/cpu").job()
    id_ = store.submit(campaign)
    assert msgspec.json.encode(store.job(id_)) == msgspec.json.encode(campaign)
    assert (store.show(id_).runner, store.lease().trials) == ("cpu", 0)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("jobs", "name", b"\xff"),
        ("jobs", "rule", "loudest"),
        ("jobs", "submitted_at", "yesterday"),
        ("jobs", "total", 2.5),
        ("tasks", "best_s", "{"),
        ("tasks", "trials", -1),
        ("tasks", "weight", "heavy"),
        ("leases", "until", "later"),
        ("leases", "worker", "[]"),
    ],
)
def test_a_store_that_holds_anything_in_its_columns_is_refused_in_a_sentence(tmp_path, table, column, value):
    store = JobStore(str(tmp_path / "jobs.db"))
    store.submit(JobFile(workloads=("matmul-m64-n64-k64",), trials=4).job())
    assert store.lease()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute(f"UPDATE costmodel_{table} SET {column} = ?", (value,))
        connection.commit()
    with pytest.raises(CostModelError, match="must be as `costmodel jobs` writes it, but a row has"):
        store.list()


def test_a_store_whose_schema_is_no_text_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "jobs.db"
    JobStore(str(path))
    damaged = path.read_bytes().replace(b"begun FLOAT", b"begun (LOAT")  # a message names the table then
    path.write_bytes(damaged.replace(b"costmodel_leases", b"costmodel_lease\xbc"))
    with pytest.raises(CostModelError, match=r"must be a database that answers, but: .*utf-8"):
        JobStore(str(path)).list()
