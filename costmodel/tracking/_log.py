"""Destination of a command's log: a run, or nothing."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from costmodel.tracking._base import Tracker
from costmodel.tracking._items import Item
from costmodel.tracking._lifetime import running
from costmodel.tracking._write import write_items


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
    """Run that starts here, and whose status is set when it ends; see ``running``."""
    with running(tracker, name, experiment) as run_id:
        yield TrackedRun(tracker, run_id, experiment)
