"""What a dataset holds, in numbers: counts, noise, spread of quality and the budget gap."""

from collections import Counter
from dataclasses import dataclass

from costmodel.dataset._dataset import Dataset
from costmodel.dataset._noise import Noise, describe_noise
from costmodel.dataset._tasks import Budget, Task, describe_budgets, describe_tasks
from costmodel.records import Outcome


@dataclass(frozen=True)
class Description:
    """What a dataset holds.

    Attributes:
        workloads: Distinct workloads.
        candidates: Distinct candidates.
        kernels: Distinct generated sources; 0 where they are not known.
        complete_kernels: By workload, the different kernels that work on each of its platforms, told apart by
            generated source, or by candidate where the source is not known.
        platforms: Distinct platforms.
        measurements: Rows, A/A repeats included.
        outcomes: Rows by outcome, the most frequent first.
        devices: Names of the devices.
        software: Versions that it was measured with.
        measured_from: Day of the first measurement, ISO 8601.
        measured_to: Day of the last measurement.
        noise: How far equal measurements differ.
        tasks: By workload, then device, SMs and isolation.
        budgets: By device, SMs and isolation.
    """

    workloads: int
    candidates: int
    kernels: int
    complete_kernels: dict[str, int]
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


def describe(dataset: Dataset) -> Description:
    """Describe a dataset that has at least one measurement."""
    tasks = describe_tasks(dataset)
    frame = dataset.measurements
    return Description(
        workloads=len({candidate.workload.name for candidate in dataset.candidates}),
        candidates=len(dataset.candidates),
        kernels=len(set(frame["kernel_hash"]) - {""}),
        complete_kernels=_complete_kernels(dataset),
        platforms=len(dataset.platforms),
        measurements=len(frame),
        outcomes=dict(Counter(frame["outcome"]).most_common()),
        devices=tuple(sorted({platform.device.name for platform in dataset.platforms})),
        software=_software(dataset),
        measured_from=min(frame["measured_at"])[:10],
        measured_to=max(frame["measured_at"])[:10],
        noise=describe_noise(frame),
        tasks=tasks,
        budgets=describe_budgets(tasks, dataset.platforms),
    )


def _complete_kernels(dataset: Dataset) -> dict[str, int]:
    """Kernels of each workload that work on all of its platforms."""
    frame = dataset.measurements.assign(workload=dataset.measured_workloads)
    hashes, names = frame["kernel_hash"], frame["candidate"].astype(str)
    working = frame.assign(kernel=hashes.where(hashes != "", names))[frame["outcome"] == Outcome.OK]
    platforms = frame.groupby("workload")["platform"].nunique()
    covered = working.groupby(["workload", "kernel"])["platform"].nunique().reset_index()
    complete = covered["workload"][covered["platform"] == covered["workload"].map(platforms)]
    counts = Counter(complete)
    return {workload: counts[workload] for workload in sorted(platforms.index)}


def _software(dataset: Dataset) -> dict[str, str]:
    """All versions of each software."""
    versions: dict[str, set[str]] = {}
    for platform in dataset.platforms:
        for name, version in platform.software.items():
            versions.setdefault(name, set()).update(version.split(", "))
    return {name: ", ".join(sorted(found)) for name, found in sorted(versions.items())}
