"""What stages of the work are busy with is told by every process, and put together for all of them."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import command

from costmodel.collector import _meter as meter
from costmodel.collector._meter import Meter, MeteredStage
from costmodel.service import JobStore, open_engine
from costmodel.service._usage import Capacity, StageUse

pytestmark = pytest.mark.white_box

BUILD, DEVICE = MeteredStage("build", "host"), MeteredStage("device", "host GPU 0")


def test_a_meter_counts_what_goes_on_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("costmodel.collector._meter.time.perf_counter", lambda: clock[0])
    counts = Meter()
    with counts.timing(BUILD):
        clock[0] += 2.0
        other = counts.begin(DEVICE)
        clock[0] += 1.0
        assert counts.totals() == {BUILD: (0, 3.0), DEVICE: (0, 1.0)}
    counts.end(other)
    clock[0] += 9.0
    assert counts.totals() == {BUILD: (1, 3.0), DEVICE: (1, 1.0)}


class Reporter:
    """A process that reports what it did; several are played in turn."""

    def __init__(self, store: JobStore, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self._store, self._patch, self._number = store, monkeypatch, number
        self.done: dict[MeteredStage, tuple[int, float]] = {}

    def report(self, **capacities: Capacity) -> None:
        counts = Meter()
        counts._done = {stage: meter.Tally(*tally) for stage, tally in self.done.items()}
        mark = type("Mark", (), {"own": lambda: Mark(self._number)})
        self._patch.setattr("costmodel.service._usage.METER", counts)
        self._patch.setattr("costmodel.service._usage.ProcessMark", mark)
        self._store.report_usage({BUILD: capacities["build"]} if capacities else {})


class Mark:
    """Stands for a process."""

    host, started = "host", 1

    def __init__(self, pid: int) -> None:
        self.pid = pid


def test_processes_are_put_together(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    store = JobStore(place, clock=lambda: clock[0])
    pool, *workers = (Reporter(store, monkeypatch, number) for number in range(3))
    for seconds in range(0, 21, 2):
        clock[0] = 1000.0 + seconds
        # Of four builders three are busy in the first half, and one in the other.
        pool.done = {BUILD: (seconds, 3.0 * min(seconds, 10) + max(0, seconds - 10))}
        pool.report(build=Capacity(4, waiting=seconds))
        for worker in workers:  # each has the device for a third of the time
            worker.done = {DEVICE: (seconds // 2, seconds / 3)}
            worker.report()
    builders, device = store.usage(20.0, 2)
    assert (builders.stage, builders.places, builders.waiting, builders.done) == ("build", 4, 20, 20)
    assert builders.busy == pytest.approx((0.75, 0.25))
    assert builders.share == pytest.approx(0.5)
    assert (device.place, device.places, device.waiting) == (DEVICE.where, 1, 0)
    assert device.busy == pytest.approx((2 / 3, 2 / 3))


def test_a_process_that_is_gone_has_no_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    store = JobStore(str(tmp_path / "jobs.db"), clock=lambda: clock[0])
    reporter = Reporter(store, monkeypatch, 1)
    for seconds in (0, 2):
        clock[0] = 1000.0 + seconds
        reporter.report(build=Capacity(4))
    clock[0] = 1020.0
    (use,) = store.usage(40.0, 4)
    assert (use.places, use.share) == (0, 0.0)
    assert use.busy == (None, None, 0.0, None)
    clock[0] = 1100.0
    assert store.usage(40.0) == []


def test_what_is_old_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    store = JobStore(str(tmp_path / "jobs.db"), clock=lambda: clock[0])
    reporter = Reporter(store, monkeypatch, 1)
    reporter.report(build=Capacity(4))
    clock[0] += 4000.0
    reporter.report(build=Capacity(4))
    (use,) = store.usage(10_000.0, 1)
    assert use == StageUse(*BUILD, 4, 0, 0, (None,))


@pytest.mark.usefixtures("_interruptible")
def test_builders_serve_workers_and_are_shown(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    address, store = f"unix://{tmp_path / 'b.sock'}", str(tmp_path / "jobs.db")
    JobStore(store)
    builders = subprocess.Popen(
        command("jobs", "builders", "--at", address, "--count", "2", "--store", store),
        stdout=subprocess.DEVNULL,
    )
    try:
        with open_engine(address, connect_timeout_s=60.0) as engine:
            assert [engine.submit(divmod, number, 7).result(60) for number in range(9)][-1] == (1, 1)
        time.sleep(2.5)  # until they have reported
        shown = tmp_path / "top.json"
        subprocess.run(
            command("jobs", "top", "--store", store, "--json", shown), check=True, stdout=subprocess.DEVNULL
        )
        (use,) = json.loads(shown.read_text())
        assert (use["stage"], use["places"], use["done"]) == ("build", 2, 9)
        assert max(share or 0 for share in use["busy"]) > 0
    finally:
        builders.send_signal(signal.SIGINT)
        builders.wait(60)
    assert not (tmp_path / "b.sock").exists()
