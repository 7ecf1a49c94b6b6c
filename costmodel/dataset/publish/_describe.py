"""What a dataset holds, in numbers: counts, noise, spread of quality and the budget gap."""

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.publish._coverage import CandidateCounts, Coverage, count_candidates, describe_coverage
from costmodel.dataset.publish._noise import Noise, describe_noise, repeat_spreads, visit_shifts
from costmodel.dataset.publish._tasks import Budget, Task, describe_budgets, describe_tasks
from costmodel.dataset.splits import (
    DevicePair,
    describe_pairs,
    latencies_by_part,
    similarity_of,
    task_agreements,
)
from costmodel.dataset.table import Dataset, DatasetLike, iter_datasets
from costmodel.records import Outcome, Platform


@dataclass(frozen=True)
class Description:
    """What a dataset holds.

    Attributes:
        workloads: Distinct workloads.
        candidates: Distinct candidates.
        kernels: Distinct generated sources; 0 where they are not known.
        working_kernels: By workload, the different kernels that work wherever they were measured, told apart
            by generated source, or by candidate where the source is not known.
        platforms: Distinct platforms.
        measurements: Rows, A/A repeats included.
        outcomes: Rows by outcome, the most frequent first.
        devices: Names of the devices.
        software: Versions that it was measured with.
        measured_from: Day of the first measurement, ISO 8601; ``unknown`` if none says when it was made.
        measured_to: Day of the last measurement, likewise.
        noise: How far equal measurements differ.
        tasks: By workload, then device, SMs and isolation.
        budgets: By device, SMs and isolation.
        pairs: How alike each two devices are, the most alike first.
        coverage: Each workload on each platform, measured or not; platforms in the order of ``budgets``.
    """

    workloads: int
    candidates: int
    kernels: int
    working_kernels: dict[str, int]
    platforms: int
    measurements: int
    outcomes: dict[str, int]
    devices: tuple[str, ...]
    software: dict[str, str]
    measured_from: str
    measured_to: str
    noise: Noise
    tasks: tuple[Task, ...]
    budgets: tuple[Budget, ...]
    pairs: tuple[DevicePair, ...]
    coverage: tuple[Coverage, ...]


def describe(dataset: DatasetLike | None = None) -> Description:
    """Describe a dataset that has at least one measurement; see ``load_dataset`` for what may be given."""
    return Describer.of(dataset).description()


class Describer:
    """Describes a dataset that is too large for memory, from parts that share no workload."""

    def __init__(self) -> None:
        self._tasks: list[Task] = []
        self._counts = CandidateCounts({}, {})
        self._platforms: dict[str, Platform] = {}
        self._software: dict[str, set[str]] = {}
        self._working_kernels: dict[str, int] = {}
        self._outcomes = Counter[str]()
        self._measurements = self._candidates = 0
        self._days: set[str] = set()
        self._kernels: list[NDArray[np.uint64]] = []
        self._repeats: list[NDArray[np.float64]] = []
        self._shifts: list[pd.DataFrame] = []
        self._agreements: list[pd.DataFrame] = []

    @classmethod
    def of(cls, dataset: DatasetLike | None = None, track: Track = untracked) -> Self:
        """Take in a dataset; of one that is not loaded, memory holds one workload at a time.

        Args:
            dataset: The dataset, its name or its path; see ``load_dataset``.
            track: Shows how far it is.

        Raises:
            CostModelError: It cannot be read.
        """
        describer = cls()
        for part in [dataset] if isinstance(dataset, Dataset) else iter_datasets(dataset, track):
            describer.add(part)
        return describer

    def add(self, part: Dataset) -> None:
        """Take in some workloads."""
        frame = part.measurements
        self._tasks += describe_tasks(part)
        counts = count_candidates(part)
        self._counts.known.update(counts.known)
        self._counts.measured.update(counts.measured)
        for platform in part.platforms:
            self._platforms.setdefault(platform.platform_id, platform)
            for name, versions in platform.software.items():
                self._software.setdefault(name, set()).update(versions.split(", "))
        self._working_kernels |= _working_kernels(part)
        outcomes = frame["outcome"].value_counts(sort=False)
        self._outcomes.update({str(outcome): count for outcome, count in outcomes.items()})
        self._measurements += len(frame)
        self._candidates += len(part.candidates)
        self._days.update(day for day in frame["measured_at"].str[:10].unique() if day)
        known = frame["kernel_hash"][frame["kernel_hash"] != ""]
        self._kernels.append(pd.util.hash_array(known.unique()))
        self._repeats.append(repeat_spreads(frame))
        self._shifts.append(visit_shifts(frame))
        self._agreements.append(task_agreements(latencies_by_part(part)))

    @property
    def shifts(self) -> pd.DataFrame:
        """The ``visit_shifts`` of all parts."""
        return pd.concat(self._shifts, ignore_index=True)

    def description(self) -> Description:
        """What all parts together hold: at least one measurement."""
        budgets = describe_budgets(self._tasks, self._platforms.values())
        days = self._days or {"unknown"}
        return Description(
            workloads=len(self._working_kernels),
            candidates=self._candidates,
            kernels=len(np.unique(np.concatenate(self._kernels))),
            working_kernels=dict(sorted(self._working_kernels.items())),
            platforms=len(self._platforms),
            measurements=self._measurements,
            outcomes=dict(self._outcomes.most_common()),
            devices=tuple(sorted({platform.device.name for platform in self._platforms.values()})),
            software={name: ", ".join(sorted(found)) for name, found in sorted(self._software.items())},
            measured_from=min(days),
            measured_to=max(days),
            noise=describe_noise(np.concatenate(self._repeats), self.shifts),
            tasks=tuple(sorted(self._tasks, key=attrgetter("workload"))),
            budgets=budgets,
            pairs=describe_pairs(similarity_of(self._agreements)),
            coverage=describe_coverage(self._counts, self._tasks, [budget.platform for budget in budgets]),
        )


def _working_kernels(dataset: Dataset) -> dict[str, int]:
    """Kernels of each workload that work wherever they were measured."""
    frame = dataset.measurements
    fails = frame["candidate"][frame["outcome"] != Outcome.OK].unique()
    working = frame[~frame["candidate"].isin(fails)]
    # Kernels of unknown source are told apart by candidate.
    hashes = pd.Series(pd.factorize(working["kernel_hash"])[0], working.index)
    kernel = hashes.where(working["kernel_hash"] != "", -1 - working["candidate"])
    workload = dataset.columns.workload_of[working["candidate"]]
    counts = kernel.groupby(workload).nunique()
    present = np.unique(dataset.columns.workload_of[frame["candidate"]])
    return {dataset.workloads[at]: int(counts.get(at, 0)) for at in present}
