"""Coverage: how much of the known space was measured where, and how flat the landscape is there.

Notations:
    known: a candidate of a workload that any platform of the dataset measured.
    flatness: share of the working kernels of a task within 10 % of the best. A random choice is good there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from costmodel.dataset.publish._tasks import Task
from costmodel.dataset.table._dataset import Dataset


@dataclass(frozen=True)
class Coverage:
    """One workload on one platform, measured or not.

    Attributes:
        workload: Name of the workload.
        platform: Name of the platform.
        known: Candidates of the workload that any platform measured.
        measured: Those measured here, failures included.
        near_best_share: Flatness in (0, 1]; NaN if none works here, or only one was measured.
    """

    workload: str
    platform: str
    known: int
    measured: int
    near_best_share: float

    @property
    def share(self) -> float:
        """Measured of the known candidates, in [0, 1]."""
        return self.measured / self.known


@dataclass(frozen=True)
class CandidateCounts:
    """How many candidates were measured.

    Attributes:
        known: By workload, on any platform.
        measured: By workload and platform.
    """

    known: dict[str, int]
    measured: dict[tuple[str, str], int]


def count_candidates(dataset: Dataset) -> CandidateCounts:
    """Count the candidates that were measured, failures included."""
    rows = dataset.rows
    known = np.bincount(dataset.columns.workload_of[np.unique(rows["candidate"])])
    measured = rows.groupby(["workload", "platform"]).size().reset_index(name="count")
    return CandidateCounts(
        {name: int(count) for name, count in zip(dataset.workloads, known, strict=False) if count},
        {
            (workload, dataset.platforms[place].name): count
            for workload, place, count in measured.itertuples(index=False)
        },
    )


def describe_coverage(
    counts: CandidateCounts, tasks: Iterable[Task], platforms: Iterable[str]
) -> tuple[Coverage, ...]:
    """Each workload on each platform, by workload, in the order of ``platforms`` (names)."""
    flatness = {(task.workload, task.platform): task.near_best_share for task in tasks}
    names = list(dict.fromkeys(platforms))
    return tuple(
        Coverage(
            workload=workload,
            platform=platform,
            known=known,
            measured=counts.measured.get((workload, platform), 0),
            near_best_share=flatness.get((workload, platform), np.nan),
        )
        for workload, known in sorted(counts.known.items())
        for platform in names
    )
