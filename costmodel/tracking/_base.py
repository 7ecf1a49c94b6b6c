"""The contract of a tracker, what it gives back of a run, and how runs are found and compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from costmodel.errors import CostModelError
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


def find_run(runs: Sequence[RunRecord], wanted: str) -> RunRecord:
    """Find the run whose id equals, or begins with, the given text.

    Raises:
        CostModelError: If there is no such run, or there are several.
    """
    found = [run for run in runs if run.run_id == wanted] or [
        run for run in runs if wanted and run.run_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(f"{run.run_id[: len(wanted) + 4]} ({run.name})" for run in found[:5])
        raise CostModelError(
            f"A run id must begin like one run only, but {wanted!r} begins like {len(found)}: {ids}. "
            "Give more of it."
        )
    raise CostModelError(
        f"A run id must be one that `costmodel experiments list` shows, or its beginning, but got {wanted!r}."
    )


@dataclass(frozen=True)
class Difference:
    """A name with its value in each run.

    Attributes:
        name: Name of a parameter, tag or metric.
        values: One value per run; None if a run has none.
    """

    name: str
    values: tuple[str | float | None, ...]


@dataclass(frozen=True)
class Comparison:
    """Comparison of runs.

    Attributes:
        runs: The runs.
        parameters: Parameters that differ.
        tags: Tags that differ, except those of the process alone.
        metrics: All metrics that at least two runs have.
    """

    runs: tuple[RunRecord, ...]
    parameters: tuple[Difference, ...]
    tags: tuple[Difference, ...]
    metrics: tuple[Difference, ...]


def compare_runs(runs: Sequence[RunRecord]) -> Comparison:
    """Compare runs: what differs between them, and their metrics.

    Raises:
        CostModelError: If there are fewer than two runs.
    """
    if len({run.run_id for run in runs}) < 2:
        raise CostModelError(f"Two different runs or more must be given to compare, but got {len(runs)}.")
    return Comparison(
        tuple(runs),
        tuple(d for d in _side_by_side(runs, lambda run: run.parameters) if _differs(d)),
        tuple(d for d in _side_by_side(runs, lambda run: run.tags) if _differs(d) and _is_telling(d.name)),
        tuple(d for d in _side_by_side(runs, lambda run: run.metrics) if _known(d) > 1),
    )


def _side_by_side(
    runs: Sequence[RunRecord], of: Callable[[RunRecord], Mapping[str, str] | Mapping[str, float]]
) -> list[Difference]:
    """What each run has, by names in the order of their first appearance."""
    names = dict.fromkeys(name for run in runs for name in of(run))
    return [Difference(name, tuple(of(run).get(name) for run in runs)) for name in names]


def _differs(difference: Difference) -> bool:
    return len(set(difference.values)) > 1


def _known(difference: Difference) -> int:
    return sum(value is not None for value in difference.values)


def _is_telling(tag: str) -> bool:
    """Whether a tag can explain why runs differ."""
    return tag.startswith(("git.", "software.", "hardware.", "dataset."))
