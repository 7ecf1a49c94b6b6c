"""From a run's beginning to its end, whatever ends it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from costmodel.processes import ProcessMark
from costmodel.tracking._base import RunRecord, RunStatus, Tracker
from costmodel.tracking._items import Tag
from costmodel.tracking._redact import redacted

# Tags by which a run is found whose process was killed before it could say so.
HOST, PID, STARTED = "process.host", "process.pid", "process.started"
ENDED_BY = "ended_by"


@contextmanager
def running(tracker: Tracker, name: str, experiment: str, parent_id: str | None = None) -> Iterator[str]:
    """A run that is marked as it ended: finished, failed by an exception, or killed by a signal.

    What kills without a chance to say so leaves it as running; see ``mark_dead_runs``.

    Yields:
        Id of the run.
    """
    run_id = tracker.start(name, experiment, parent_id)
    tracker.log_values(run_id, _process_tags())
    try:
        with _sigterm_raises():
            yield run_id
    except BaseException as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        tracker.log_values(run_id, [Tag(ENDED_BY, redacted(reason))])
        tracker.end(run_id, RunStatus.FAILED if isinstance(error, Exception) else RunStatus.KILLED)
        raise
    tracker.end(run_id, RunStatus.FINISHED)


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


def _process_tags() -> list[Tag]:
    mark = ProcessMark.own()
    return [Tag(HOST, mark.host), Tag(PID, str(mark.pid)), Tag(STARTED, str(mark.started))]


def _is_dead(run: RunRecord) -> bool:
    """Whether its process ran on this host and is gone; of others nothing is known."""
    if HOST not in run.tags:
        return False
    started = run.tags[STARTED]
    mark = ProcessMark(run.tags[HOST], int(run.tags[PID]), None if started == "None" else int(started))
    return mark.is_of_this_host and mark.is_gone


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
