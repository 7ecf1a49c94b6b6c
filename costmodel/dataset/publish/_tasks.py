"""How much there is to choose in each task, and what a choice made for the whole device costs on fewer SMs.

Notations:
    task: one workload on one platform.
    whole-device choice: of a workload on a device, the kernel that is fastest with the most SMs measured.
    budget gap: latency of the whole-device choice / best latency of the task - 1. 0 is best.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from costmodel.dataset.table._dataset import Dataset
from costmodel.records._platform import Platform

_NEAR_BEST = 1.1


@dataclass(frozen=True)
class Task:
    """One workload on one platform.

    Attributes:
        workload: Name of the workload.
        platform: Name of the platform.
        sms_granted: Its SMs.
        configs: How many were measured, failures included. One tells nothing of choosing.
        outcomes: Measurements by outcome, A/A repeats included.
        best_latency_s: Seconds of the fastest kernel; inf if all failed.
        near_best_share: Share of the working kernels within 10 % of the best; NaN if all failed, or of one
            config.
        spread: log10 of worst / best latency of the working kernels; NaN likewise.
        budget_gap: Gap of the whole-device choice; inf if it fails here, NaN if it was not measured here, or
            nothing else was.
    """

    workload: str
    platform: str
    sms_granted: int
    configs: int
    outcomes: dict[str, int]
    best_latency_s: float
    near_best_share: float
    spread: float
    budget_gap: float


@dataclass(frozen=True)
class Budget:
    """The tasks of one platform whose budget gap is known.

    Attributes:
        platform: Name of the platform.
        device: Name of its device.
        label: What tells it from the others of its device: its SMs, and MPS where that sets them apart.
        sms_granted: Its SMs.
        tasks: How many these are.
        mean_gap: Geometric mean of 1 + gap, minus 1; NaN if there are none.
        worst_gap: Largest gap; NaN if there are none.
        worst_workload: Where that is; empty if there are none.
    """

    platform: str
    device: str
    label: str
    sms_granted: int
    tasks: int
    mean_gap: float
    worst_gap: float
    worst_workload: str


def describe_tasks(dataset: Dataset) -> tuple[Task, ...]:
    """Return each task, by workload, then device, SMs and isolation."""
    rows = dataset.rows
    choices = _whole_device_choices(rows)
    outcomes = _outcomes_by_task(dataset)
    tasks = []
    for _, task in rows.groupby(["workload", "platform"]):
        workload, position = task["workload"].iloc[0], task["platform"].iloc[0]
        platform = dataset.platforms[position]
        choice = choices.get((workload, platform.device.name), -1)
        tasks.append((platform, _task(task, platform, choice, outcomes[workload, position])))
    tasks.sort(key=lambda pair: (pair[1].workload, *_platform_order(pair[0])))
    return tuple(task for _, task in tasks)


def describe_budgets(tasks: Iterable[Task], platforms: Iterable[Platform]) -> tuple[Budget, ...]:
    """Return each platform, by device, SMs and isolation."""
    known = [task for task in tasks if not np.isnan(task.budget_gap)]
    return tuple(
        _budget(platform, [task for task in known if task.platform == platform.name])
        for platform in sorted(platforms, key=_platform_order)
    )


def _platform_order(platform: Platform) -> tuple[str, int, str]:
    return platform.device.name, platform.sms_granted, platform.isolation


def _whole_device_choices(rows: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Return the whole-device choice of each (workload, device), where any kernel works with the most SMs."""
    groups = ["workload", "device"]
    most = rows["sms_granted"] == rows.groupby(groups)["sms_granted"].transform("max")
    working = rows[most & np.isfinite(rows["latency_s"])]
    fastest = working.loc[working.groupby(groups)["latency_s"].idxmin()]
    return dict(
        zip(zip(fastest["workload"], fastest["device"], strict=True), fastest["candidate"], strict=True)
    )


def _outcomes_by_task(dataset: Dataset) -> dict[tuple[str, int], dict[str, int]]:
    frame = dataset.measurements[["platform", "outcome"]].assign(workload=dataset.measured_workloads)
    counts = frame.groupby(["workload", "platform", "outcome"]).size().reset_index(name="count")
    outcomes: dict[tuple[str, int], dict[str, int]] = {}
    for workload, platform, outcome, count in counts.itertuples(index=False):
        outcomes.setdefault((workload, platform), {})[outcome] = count
    return outcomes


def _task(rows: pd.DataFrame, platform: Platform, choice: int, outcomes: dict[str, int]) -> Task:
    latency = rows["latency_s"].to_numpy()
    working = latency[np.isfinite(latency)]
    best = float(working.min(initial=np.inf))
    chosen = latency[rows["candidate"].to_numpy() == choice]
    tells = working.size > 0 and len(rows) > 1
    return Task(
        workload=rows["workload"].iloc[0],
        platform=platform.name,
        sms_granted=platform.sms_granted,
        configs=len(rows),
        outcomes=outcomes,
        best_latency_s=best,
        near_best_share=float(np.mean(working <= _NEAR_BEST * best)) if tells else np.nan,
        spread=float(np.log10(working.max() / best)) if tells else np.nan,
        budget_gap=float(chosen[0] / best - 1) if chosen.size and tells else np.nan,
    )


def _budget(platform: Platform, tasks: list[Task]) -> Budget:
    gaps = [task.budget_gap for task in tasks]
    worst = max(tasks, key=lambda task: task.budget_gap, default=None)
    return Budget(
        platform=platform.name,
        device=platform.device.name,
        label=f"{platform.sms_granted}{' MPS' if platform.isolation == 'mps' else ''}",
        sms_granted=platform.sms_granted,
        tasks=len(tasks),
        mean_gap=float(np.expm1(np.mean(np.log1p(gaps)))) if gaps else np.nan,
        worst_gap=worst.budget_gap if worst else np.nan,
        worst_workload=worst.workload if worst else "",
    )


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
    """Return each workload on each platform, by workload, in the order of ``platforms`` (names)."""
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
