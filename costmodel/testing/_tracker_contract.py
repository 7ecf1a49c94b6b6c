"""Contract checks for trackers.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", TRACKER_CHECKS)
    def test_my_tracker_keeps_the_contract(check):
        check(MyTracker())
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from costmodel.tracking._base import RunRecord, RunStatus, Tracker
from costmodel.tracking._items import (
    Artifact,
    ChildRun,
    DatasetUsed,
    Item,
    Metric,
    Note,
    Parameter,
    Table,
    Tag,
)
from costmodel.tracking._run import mark_dead_runs, tracked_run

_EXPERIMENT = "contract"
_FILES = {"notes/readme.txt": 5, "config.txt": 1, "tables/tasks.csv": 8}


def check_gives_back_what_was_logged(tracker: Tracker) -> None:
    """Settings as text, the last value of each metric, tags, description, dataset and files."""
    with tracked_run(tracker, "one", _EXPERIMENT) as run:
        run.log(_items())
    found = _find(tracker, "one")
    assert found.run_id == run.run_id
    assert found.experiment == _EXPERIMENT
    assert found.parameters == {"seed": "3", "split": "random"}
    assert found.metrics == {"score_at_1": 0.5, "trial/latency_us": 7.0}
    assert found.tags["git.commit"] == "abc"
    assert found.note == "A *note*."
    (used,) = found.datasets
    assert (used.name, used.context, used.profile) == ("kernels", "training", {"num_rows": 3})
    assert found.tags["dataset.kernels.sha256"] == "0" * 64
    assert tracker.files(run.run_id) == _FILES


def check_metrics_that_are_no_numbers_are_left_out(tracker: Tracker) -> None:
    """A failure's latency is infinite, and what does not apply is NaN: neither is a metric."""
    with tracked_run(tracker, "numbers", _EXPERIMENT) as run:
        run.log([Metric("inf", float("inf")), Metric("nan", float("nan")), Metric("one", 1.0)])
    assert _find(tracker, "numbers").metrics == {"one": 1.0}


def check_runs_below_know_the_run_above(tracker: Tracker) -> None:
    """A child run is of the same experiment, and names its parent."""
    with tracked_run(tracker, "parent", _EXPERIMENT) as run:
        run.log([ChildRun("child", iter([Metric("score", 1.0)]))])
    child = _find(tracker, "child")
    assert (child.parent_id, child.experiment, child.metrics) == (run.run_id, _EXPERIMENT, {"score": 1.0})
    assert _find(tracker, "parent").parent_id is None


def check_runs_are_of_their_experiment(tracker: Tracker) -> None:
    """Runs of one experiment can be asked for; one that nobody logged to has none."""
    with tracked_run(tracker, "here", _EXPERIMENT), tracked_run(tracker, "there", "another"):
        pass
    assert [run.name for run in tracker.runs("another")] == ["there"]
    assert tracker.runs("a third") == []


def check_ends_are_told_apart(tracker: Tracker) -> None:
    """A run that ends finishes, an exception fails it, an interrupt kills it; both say why."""
    for name, error in (("fine", None), ("failing", ValueError("no")), ("stopped", KeyboardInterrupt())):
        try:
            with tracked_run(tracker, name, _EXPERIMENT):
                if error:
                    raise error
        except (ValueError, KeyboardInterrupt):
            pass
    fine, failing, stopped = (_find(tracker, name) for name in ("fine", "failing", "stopped"))
    assert (fine.status, failing.status, stopped.status) == (
        RunStatus.FINISHED,
        RunStatus.FAILED,
        RunStatus.KILLED,
    )
    assert [run.name for run in tracker.runs(status=RunStatus.FAILED)] == ["failing"]
    assert failing.tags["ended_by"] == "ValueError: no"
    assert stopped.ended_at is not None


def check_a_run_that_lives_is_left_alone(tracker: Tracker) -> None:
    """Only runs whose process is gone are marked."""
    with tracked_run(tracker, "alive", _EXPERIMENT):
        assert mark_dead_runs(tracker) == []
        assert _find(tracker, "alive").status is RunStatus.RUNNING


def _items() -> Iterator[Item]:
    yield Parameter("seed", 3)
    yield Parameter("split", "random")
    yield from (Metric("trial/latency_us", value, step) for step, value in enumerate((9.0, 8.0, 7.0)))
    yield Tag("git.commit", "abc")
    yield Note("A *note*.")
    yield Artifact.of_text("notes/readme.txt", "Hello")
    yield Artifact.of_text("config.txt", "1")
    yield Table("tables/tasks.csv", pd.DataFrame({"a": [1], "b": [2]}))
    yield Table("tables/empty.csv", pd.DataFrame())
    yield DatasetUsed("kernels", "0" * 64, Path("kernels"), {"x": "double"}, {"num_rows": 3}, "training")
    yield Metric("score_at_1", 0.5)


def _find(tracker: Tracker, name: str) -> RunRecord:
    (found,) = (run for run in tracker.runs() if run.name == name)
    return found


TRACKER_CHECKS: tuple[Callable[[Tracker], None], ...] = (
    check_gives_back_what_was_logged,
    check_metrics_that_are_no_numbers_are_left_out,
    check_runs_below_know_the_run_above,
    check_runs_are_of_their_experiment,
    check_ends_are_told_apart,
    check_a_run_that_lives_is_left_alone,
)
"""What each tracker must do: functions of a tracker that holds nothing yet."""
