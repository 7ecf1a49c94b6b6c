"""From a run's beginning to its end: what is logged to it, and how it is marked whatever ends it."""

import math
import signal
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, Protocol

from costmodel.liveness import ProcessMark
from costmodel.printable import mask_secrets
from costmodel.tracking._base import RunRecord, RunStatus, Tracker
from costmodel.tracking._items import (
    Artifact,
    ChildRun,
    DatasetUsed,
    Item,
    Metric,
    ModelFile,
    Note,
    Parameter,
    Table,
    Tag,
    Value,
)

# Tags by which a run is found whose process was killed before it could say so.
HOST, PID, STARTED = "process.host", "process.pid", "process.started"
ENDED_BY = "ended_by"


class RunLog(Protocol):
    """Receives what a run logs."""

    def log(self, items: Iterable[Item]) -> None:
        """Log these items."""
        ...


class Untracked:
    """Logs nothing. Generators that it is given are never run."""

    def log(self, items: Iterable[Item]) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class TrackedRun:
    """A run of a tracker.

    Attributes:
        tracker: Tracker that stores the run.
        run_id: Id of the run.
        experiment: Name of its experiment.
    """

    tracker: Tracker
    run_id: str
    experiment: str

    def log(self, items: Iterable[Item]) -> None:
        """Write these items; see ``write_items``."""
        write_items(self.tracker, self.run_id, self.experiment, items)


@contextmanager
def tracked_run(tracker: Tracker, name: str, experiment: str) -> Iterator[TrackedRun]:
    """Start a run whose status is set when it ends; see ``running``."""
    with running(tracker, name, experiment) as run_id:
        yield TrackedRun(tracker, run_id, experiment)


@contextmanager
def running(tracker: Tracker, name: str, experiment: str, parent_id: str | None = None) -> Iterator[str]:
    """Start a run that is marked as it ended: finished, failed by an exception, or killed by a signal.

    What kills without a chance to say so leaves it as running; see ``mark_dead_runs``.

    Yields:
        Id of the run.
    """
    run_id = tracker.start(mask_secrets(name), experiment, parent_id)
    tracker.log_values(run_id, _process_tags())
    try:
        with _sigterm_raises():
            yield run_id
    except BaseException as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        _log_values(tracker, run_id, [Tag(ENDED_BY, reason)])
        tracker.end(run_id, RunStatus.FAILED if isinstance(error, Exception) else RunStatus.KILLED)
        raise
    tracker.end(run_id, RunStatus.FINISHED)


def write_items(tracker: Tracker, run_id: str, experiment: str, items: Iterable[Item]) -> None:
    """Write items to a run, in order; values that follow one another are written at once.

    Args:
        tracker: Where to.
        run_id: The run.
        experiment: Name of its experiment, which runs below it belong to as well.
        items: What to write; made while it is written.
    """
    values: list[Value] = []
    for item in items:
        if isinstance(item, Parameter | Metric | Tag | Note):
            values.append(item)
            continue
        _log_values(tracker, run_id, values)
        values.clear()
        match item:
            case Artifact():
                _write_file(tracker, run_id, item)
            case Table() if len(item.frame):
                _write_file(tracker, run_id, Artifact.of_text(item.path, item.frame.to_csv(index=False)))
            case DatasetUsed():
                tracker.log_dataset(run_id, item)
            case ModelFile():
                tracker.log_model(run_id, item)
            case ChildRun():
                with running(tracker, item.name, experiment, run_id) as child_id:
                    write_items(tracker, child_id, experiment, item.items)
    _log_values(tracker, run_id, values)


def mark_dead_runs(tracker: Tracker) -> list[RunRecord]:
    """Mark as killed the runs logged as running on this host whose process is gone.

    Returns:
        Those runs, as they were.
    """
    dead = [run for run in tracker.runs(status=RunStatus.RUNNING) if _is_dead(run)]
    for run in dead:
        tracker.log_values(run.run_id, [Tag(ENDED_BY, "its process is gone")])
        tracker.end(run.run_id, RunStatus.KILLED)
    return dead


def _log_values(tracker: Tracker, run_id: str, values: Iterable[Value]) -> None:
    """Log values as they may be kept: without secrets, and without numbers that are none."""
    finite = (value for value in values if not isinstance(value, Metric) or math.isfinite(value.value))
    if kept := [_mask(value) for value in finite]:
        tracker.log_values(run_id, kept)


def _mask(value: Value) -> Value:
    match value:
        case Parameter(name, text):
            return Parameter(name, mask_secrets(str(text)))
        case Tag(name, text):
            return Tag(name, mask_secrets(text))
        case Note(text):
            return Note(mask_secrets(text))
    return value


def _write_file(tracker: Tracker, run_id: str, artifact: Artifact) -> None:
    place = PurePosixPath(artifact.path)
    with tempfile.TemporaryDirectory(prefix="costmodel-") as folder:
        file = Path(folder) / place.name
        artifact.write(file)
        tracker.log_file(run_id, "" if str(place.parent) == "." else str(place.parent), file)


def _process_tags() -> list[Tag]:
    mark = ProcessMark.own()
    return [Tag(HOST, mark.host), Tag(PID, str(mark.pid)), Tag(STARTED, str(mark.started))]


def _is_dead(run: RunRecord) -> bool:
    """Whether its process ran on this host and is gone; of others nothing is known."""
    if HOST not in run.tags:
        return False
    started = run.tags[STARTED]
    mark = ProcessMark(run.tags[HOST], int(run.tags[PID]), None if started == "None" else int(started))
    return not mark.holds()


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM unwind the stack, where nobody else handles it and this thread can."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)
