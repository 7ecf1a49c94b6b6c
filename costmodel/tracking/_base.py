"""The contract of a tracker, and what it gives back of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from costmodel.tracking._items import DatasetUsed, ModelFile, Value


class RunStatus(StrEnum):
    """How far a run is, or how it ended."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    KILLED = "KILLED"


@dataclass(frozen=True)
class DatasetRead:
    """What a tracker tells of a dataset that a run used.

    Attributes:
        name: Its name.
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
        run_id: Its id.
        name: Its name.
        experiment: Name of the experiment that it belongs to.
        status: How it ended.
        started_at: When it began.
        ended_at: When it ended; None for one that runs.
        parent_id: Id of the run above it; None for one that has none.
        parameters: Settings, as text.
        metrics: The last value of each.
        tags: Facts.
        note: Its description.
        datasets: What it used.
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
    """Keeps runs, and gives them back."""

    def start(self, name: str, experiment: str, parent_id: str | None = None) -> str:
        """Begin a run, below another if one is named; its id.

        Raises:
            CostModelError: It cannot be kept.
        """
        ...

    def log_values(self, run_id: str, values: Sequence[Value]) -> None:
        """Keep values of a run; all metrics are finite."""
        ...

    def log_file(self, run_id: str, folder: str, file: Path) -> None:
        """Keep a copy of a file, in a folder of the run's files; ``""`` for none."""
        ...

    def log_dataset(self, run_id: str, used: DatasetUsed) -> None:
        """Keep what dataset a run used."""
        ...

    def log_model(self, run_id: str, model: ModelFile) -> None:
        """Keep a copy of a model with its signature."""
        ...

    def end(self, run_id: str, status: RunStatus) -> None:
        """Say how a run ended."""
        ...

    def runs(self, experiment: str | None = None, status: RunStatus | None = None) -> list[RunRecord]:
        """The runs that are kept, of one experiment or all, of one status or any, the newest first."""
        ...

    def files(self, run_id: str) -> dict[str, int]:
        """Paths of a run's files and models, and their bytes."""
        ...
