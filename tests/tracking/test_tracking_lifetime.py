import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_tracker import RecordedTracker

from costmodel.liveness import ProcessMark
from costmodel.tracking import Metric, MlflowTracker, Tag, tracked_run
from costmodel.tracking._base import RunStatus
from costmodel.tracking._items import ChildRun, Item
from costmodel.tracking._run import mark_dead_runs

pytestmark = pytest.mark.white_box

SCRIPT = Path(__file__).with_name("log_until_killed.py")


def test_runs_of_killed_processes_are_marked(store: Path, tracker: MlflowTracker) -> None:
    """SIGTERM is told by the process itself; after SIGKILL, whoever opens the store next finds out."""
    names = ("terminated", "killed")
    processes = [
        subprocess.Popen([sys.executable, SCRIPT, store, name], stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    for process, number in zip(processes, (signal.SIGTERM, signal.SIGKILL), strict=True):
        assert process.stdout
        assert process.stdout.readline()
        process.send_signal(number)
    assert [process.wait() for process in processes] == [128 + signal.SIGTERM, -signal.SIGKILL]
    for process in processes:
        assert process.stdout
        process.stdout.close()
    found = {run.name: run for run in tracker.runs()}
    assert [found[name].status for name in names] == [RunStatus.KILLED, RunStatus.RUNNING]
    assert found["terminated"].tags["ended_by"] == "SystemExit: 143"

    assert [run.name for run in mark_dead_runs(tracker)] == ["killed"]
    killed = next(run for run in tracker.runs() if run.name == "killed")
    assert killed.status is RunStatus.KILLED
    assert killed.tags["ended_by"] == "its process is gone"
    assert killed.metrics == {"trial/latency_us": 5.0}
    assert mark_dead_runs(tracker) == []


def test_a_run_of_another_host_is_left_alone() -> None:
    tracker = RecordedTracker()
    run_id = tracker.start("elsewhere", "any")
    tags = {"process.host": "another", "process.pid": "1", "process.started": "1"}
    tracker.log_values(run_id, [Tag(name, value) for name, value in tags.items()])
    assert mark_dead_runs(tracker) == []


def test_a_number_that_was_given_to_another_process_is_no_sign_of_life() -> None:
    own = ProcessMark.own()
    assert own.holds()
    other = ProcessMark(own.host, own.pid, (own.started or 0) - 1)
    assert other.holds() != Path("/proc/self/stat").exists()


def test_a_child_that_fails_fails_its_parent_too() -> None:
    tracker = RecordedTracker()
    with pytest.raises(ZeroDivisionError), tracked_run(tracker, "parent", "any") as run:
        run.log(_broken())
    assert [each.status for each in tracker.runs()] == [RunStatus.FAILED, RunStatus.FAILED]


def _broken() -> Iterator[Item]:
    def items() -> Iterator[Item]:
        yield Metric("score", 1.0)
        yield Metric("none", 1 / 0)

    yield ChildRun("child", items())


def test_sigterm_is_as_it_was_after_a_run() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with tracked_run(RecordedTracker(), "one", "any"), pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
