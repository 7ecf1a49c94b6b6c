"""How much of what is known to exist was measured where, and how flat the landscape there is.

Notations:
    known: a candidate of a workload that any platform of the dataset measured.
    flatness: share of the working kernels of a task within 10 % of the best. A random choice is good there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from costmodel.dataset._dataset import Dataset
from costmodel.dataset._tasks import Task


@dataclass(frozen=True)
class Coverage:
    """One workload on one platform, measured or not.

    Attributes:
        workload: Name of the workload.
        platform: Name of the platform.
        known: Candidates of the workload that any platform measured.
        measured: Those measured here, failures included.
        near_best_share: Flatness in (0, 1]; NaN if none works here.
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


def describe_coverage(
    dataset: Dataset, tasks: Iterable[Task], platforms: Iterable[str]
) -> tuple[Coverage, ...]:
    """Each workload on each platform, by workload, in the order of ``platforms`` (names)."""
    rows = dataset.rows
    names = [dataset.platforms[position].name for position in rows["platform"]]
    measured = rows.groupby([rows["workload"], names])["candidate"].nunique()
    known = rows.groupby("workload")["candidate"].nunique()
    flatness = {(task.workload, task.platform): task.near_best_share for task in tasks}
    names = list(dict.fromkeys(platforms))
    return tuple(
        Coverage(
            workload=workload,
            platform=platform,
            known=int(known[workload]),
            measured=int(measured.get((workload, platform), 0)),
            near_best_share=flatness.get((workload, platform), np.nan),
        )
        for workload in known.index
        for platform in names
    )
