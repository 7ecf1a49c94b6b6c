"""What two datasets have in common, and how far they disagree there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.dataset._track import Track, untracked
from costmodel.dataset.publish._noise import Quantiles, quantiles
from costmodel.dataset.table import DatasetLike, iter_measurements
from costmodel.records import Measurement


@dataclass(frozen=True)
class WorkloadDiff:
    """Two datasets, as far as one workload goes.

    Attributes:
        workload: Its name.
        left: Measurements that only the first has.
        right: Measurements that only the second has.
        equal: Measurements that both have, to the last repeat.
        changed: Measurements that both have, with other content.
        ratio: Median of second / first latency over those that changed and are ok in both; NaN without any.
    """

    workload: str
    left: int
    right: int
    equal: int
    changed: int
    ratio: float


@dataclass(frozen=True)
class Diff:
    """Two datasets side by side; a measurement is known by candidate, platform, visit and company.

    Attributes:
        workloads: One entry each, those of either dataset, by name.
        shift: abs(second / first latency - 1) over what changed and is ok in both.
        outcomes: Of what changed its outcome, how often: ``ok -> timeout`` and so on.
        fields: Of what changed, how often each field did; ``platform`` is software or a device's figures.
    """

    workloads: tuple[WorkloadDiff, ...]
    shift: Quantiles
    outcomes: dict[str, int]
    fields: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Whether both hold the same."""
        return not any(w.left + w.right + w.changed for w in self.workloads)


def diff(left: Iterable[Measurement], right: Iterable[Measurement]) -> Diff:
    """Compare the measurements of two datasets."""
    first, second = ({m.key: m for m in measurements} for measurements in (left, right))
    changed = [(first[key], second[key]) for key in first.keys() & second.keys() if first[key] != second[key]]
    names = sorted({m.candidate.workload.name for m in (*first.values(), *second.values())})
    left_only = _by_workload(m for key, m in first.items() if key not in second)
    right_only = _by_workload(m for key, m in second.items() if key not in first)
    equal = _by_workload(m for key, m in first.items() if second.get(key) == m)
    differ = _by_workload(a for a, _ in changed)
    return Diff(
        tuple(
            WorkloadDiff(w, left_only[w], right_only[w], equal[w], differ[w], _median_ratio(changed, w))
            for w in names
        ),
        quantiles([abs(ratio - 1.0) for ratio in _ratios(changed)]),
        dict(Counter(f"{a.outcome} -> {b.outcome}" for a, b in changed if a.outcome != b.outcome)),
        dict(sorted(Counter(name for a, b in changed for name in _changed_fields(a, b)).items())),
    )


def diff_datasets(first: DatasetLike, second: DatasetLike, track: Track = untracked) -> Diff:
    """Compare two datasets.

    Args:
        first: A dataset, its name or its path; see ``load_dataset``.
        second: Another one.
        track: Shows how far it is.

    Raises:
        CostModelError: One cannot be read.
    """
    return diff(*(iter_measurements(dataset, track) for dataset in (first, second)))


def _by_workload(measurements: Iterable[Measurement]) -> Counter[str]:
    return Counter(m.candidate.workload.name for m in measurements)


def _ratios(pairs: Sequence[tuple[Measurement, Measurement]]) -> list[float]:
    """Second / first latency of those that are ok in both."""
    return [b.latency_s / a.latency_s for a, b in pairs if a.latencies_s and b.latencies_s]


def _median_ratio(changed: Sequence[tuple[Measurement, Measurement]], workload: str) -> float:
    ratios = _ratios([pair for pair in changed if pair[0].candidate.workload.name == workload])
    return float(np.median(ratios)) if ratios else float("nan")


def _changed_fields(a: Measurement, b: Measurement) -> list[str]:
    """Names of the fields that differ. Candidates with one id can differ in their launches only."""
    names = [name for name in a.__struct_fields__ if getattr(a, name) != getattr(b, name)]
    return ["launches" if name == "candidate" else name for name in names]
