"""What a dataset holds, in numbers: counts, noise, spread of quality and the budget gap."""

from collections import Counter
from dataclasses import dataclass

from costmodel.dataset._coverage import Coverage, describe_coverage
from costmodel.dataset._dataset import Dataset
from costmodel.dataset._noise import Noise, describe_noise
from costmodel.dataset._similarity import DevicePair, describe_pairs, device_similarity
from costmodel.dataset._tasks import Budget, Task, describe_budgets, describe_tasks
from costmodel.records import Outcome


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


def describe(dataset: Dataset) -> Description:
    """Describe a dataset that has at least one measurement."""
    tasks = describe_tasks(dataset)
    budgets = describe_budgets(tasks, dataset.platforms)
    frame = dataset.measurements
    times = [time for time in frame["measured_at"] if time] or ["unknown"]
    return Description(
        workloads=len({candidate.workload.name for candidate in dataset.candidates}),
        candidates=len(dataset.candidates),
        kernels=len(set(frame["kernel_hash"]) - {""}),
        working_kernels=_working_kernels(dataset),
        platforms=len(dataset.platforms),
        measurements=len(frame),
        outcomes=dict(Counter(frame["outcome"]).most_common()),
        devices=tuple(sorted({platform.device.name for platform in dataset.platforms})),
        software=_software(dataset),
        measured_from=min(times)[:10],
        measured_to=max(times)[:10],
        noise=describe_noise(frame),
        tasks=tasks,
        budgets=budgets,
        pairs=describe_pairs(device_similarity(dataset)),
        coverage=describe_coverage(dataset, tasks, [budget.platform for budget in budgets]),
    )


def _working_kernels(dataset: Dataset) -> dict[str, int]:
    """Kernels of each workload that work wherever they were measured."""
    frame = dataset.measurements.assign(workload=dataset.measured_workloads)
    works = (frame["outcome"] == Outcome.OK).groupby(frame["candidate"]).all()
    working = frame[frame["candidate"].map(works)]
    hashes, names = working["kernel_hash"], working["candidate"].astype(str)
    kernels = working.assign(kernel=hashes.where(hashes != "", names)).groupby("workload")["kernel"].nunique()
    return {workload: int(kernels.get(workload, 0)) for workload in sorted(set(frame["workload"]))}


def _software(dataset: Dataset) -> dict[str, str]:
    """All versions of each software."""
    versions: dict[str, set[str]] = {}
    for platform in dataset.platforms:
        for name, version in platform.software.items():
            versions.setdefault(name, set()).update(version.split(", "))
    return {name: ", ".join(sorted(found)) for name, found in sorted(versions.items())}
