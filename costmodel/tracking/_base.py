"""The contract of a tracker, and what it gives back of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from costmodel.tracking._items import DatasetUsed, ModelFile, Value


class RunStatus(StrEnum):
    """Status of a run: running, or how it ended."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


@dataclass(frozen=True)
class DatasetRead:
    """A dataset that a run used, as read from a tracker.

    Attributes:
        name: Name of the dataset.
        digest: Beginning of its hash.
        source: Where it was read from.
        context: What it was used for.
        profile: Counts.
    """

    name: str
    digest: str
    source: str
    context: str
    profile: Mapping[str, int]


@dataclass(frozen=True)
class RunRecord:
    """A run as it was logged.

    Attributes:
        run_id: Id of the run.
        name: Name of the run.
        experiment: Name of its experiment.
        status: How it ended.
        started_at: Start time.
        ended_at: End time; None while it runs.
        parent_id: Id of the parent run; None if there is none.
        parameters: Settings, as text.
        metrics: Last value of each metric.
        tags: Facts about the run.
        note: Description of the run.
        datasets: Datasets that it used.
    """

    run_id: str
    name: str
    experiment: str
    status: RunStatus
    started_at: datetime
    ended_at: datetime | None
    parent_id: str | None
    parameters: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    note: str = ""
    datasets: Sequence[DatasetRead] = field(default=())


class Tracker(Protocol):
    """Stores runs and returns them."""

    def start(self, name: str, experiment: str, parent_id: str | None = None) -> str:
        """Start a run, optionally below another one, and return its id.

        Raises:
            CostModelError: If it cannot be stored.
        """
        ...

    def log_values(self, run_id: str, values: Sequence[Value]) -> None:
        """Store values of a run. All metrics are finite."""
        ...

    def log_file(self, run_id: str, folder: str, file: Path) -> None:
        """Store a copy of a file, in a folder of the run's files; ``""`` for no folder."""
        ...

    def log_dataset(self, run_id: str, used: DatasetUsed) -> None:
        """Store which dataset a run used."""
        ...

    def log_model(self, run_id: str, model: ModelFile) -> None:
        """Store a copy of a model with its signature."""
        ...

    def end(self, run_id: str, status: RunStatus) -> None:
        """Set how a run ended."""
        ...

    def runs(self, experiment: str | None = None, status: RunStatus | None = None) -> list[RunRecord]:
        """Return the stored runs, the newest first. Default: all experiments and statuses."""
        ...

    def files(self, run_id: str) -> dict[str, int]:
        """Return the paths of a run's files and models, with their sizes in bytes."""
        ...
