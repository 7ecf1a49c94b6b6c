"""Compare two datasets: what they have in common, and how much they disagree there."""

from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset.publish._describe import Quantiles, quantiles
from costmodel.dataset.sources._source import RecordSpool
from costmodel.dataset.table._compare import find_differences, keys_of
from costmodel.dataset.table._read import DatasetLike, Track, iter_records, show_nothing
from costmodel.dataset.table._records import Records


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
    """Differences between two datasets.

    Measurements are matched by candidate, platform, visit and co-runners.

    Attributes:
        workloads: One entry per workload of either dataset, by name.
        shift: abs(second / first latency - 1) over measurements that changed and are ok in both.
        outcomes: Number of measurements for each change of outcome, such as ``ok -> timeout``.
        fields: Number of changed measurements by changed field. ``platform`` stands for software versions or
            figures of a device.
    """

    workloads: tuple[WorkloadDiff, ...]
    shift: Quantiles
    outcomes: dict[str, int]
    fields: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Return whether both datasets contain the same."""
        return not any(w.left + w.right + w.changed for w in self.workloads)


def diff(left: Iterable[Records], right: Iterable[Records]) -> Diff:
    """Compare the measurements of two datasets; memory holds one workload of both at a time."""
    with closing(RecordSpool.of_parts(left)) as first, closing(RecordSpool.of_parts(right)) as second:
        found = [
            _Compared.of(name, first.of(name), second.of(name))
            for name in sorted(first.workloads | second.workloads)
        ]
    outcomes, fields = Counter[str](), Counter[str]()
    for each in found:
        outcomes.update(each.outcomes)
        fields.update(each.fields)
    ratios = np.concatenate([np.empty(0), *(each.ratios for each in found)])
    return Diff(
        tuple(each.workload for each in found),
        quantiles(np.abs(ratios - 1.0)),
        dict(sorted(outcomes.items())),
        dict(sorted(fields.items())),
    )


def diff_datasets(first: DatasetLike, second: DatasetLike, track: Track = show_nothing) -> Diff:
    """Compare two datasets.

    Args:
        first: Dataset, or its name or path; see ``load_dataset``.
        second: The dataset to compare it with.
        track: Reports progress. Default: no report.

    Raises:
        CostModelError: If a dataset cannot be read.
    """
    return diff(*(iter_records(dataset, track) for dataset in (first, second)))


@dataclass(frozen=True)
class _Compared:
    """One workload of both.

    Attributes:
        workload: How many measurements are where.
        ratios: Second / first latency of those that changed and are ok in both.
        outcomes: As of ``Diff``.
        fields: As of ``Diff``.
    """

    workload: WorkloadDiff
    ratios: FloatArray
    outcomes: Counter[str]
    fields: Counter[str]

    @classmethod
    def of(cls, workload: str, left: Records, right: Records) -> "_Compared":
        both = Records.concat([left, right])
        keys = keys_of(both)
        a, b = _last_of_key(keys, 0, len(left)), _last_of_key(keys, len(left), len(both))
        _, of_left, of_right = np.intersect1d(keys[a], keys[b], assume_unique=True, return_indices=True)
        differs = find_differences(both, a[of_left], b[of_right])
        changed = np.logical_or.reduce([*differs.values(), np.zeros(len(of_left), np.bool_)])
        first, second = a[of_left][changed], b[of_right][changed]
        latency_s = both.latency_s
        ok = np.isfinite(latency_s[first]) & np.isfinite(latency_s[second])
        ratios = latency_s[second[ok]] / latency_s[first[ok]]
        outcome = both.rows["outcome"].to_numpy()
        pairs = Counter(f"{x} -> {y}" for x, y in zip(outcome[first], outcome[second], strict=True) if x != y)
        return cls(
            WorkloadDiff(
                workload,
                left=len(a) - len(of_left),
                right=len(b) - len(of_left),
                equal=int((~changed).sum()),
                changed=len(first),
                ratio=float(np.median(ratios)) if ratios.size else float("nan"),
            ),
            ratios,
            pairs,
            Counter({name: int(where.sum()) for name, where in differs.items()}),
        )


def _last_of_key(keys: Positions, start: int, end: int) -> Positions:
    """Return position of the last measurement of each key from a start to an end."""
    _, backwards = np.unique(keys[start:end][::-1], return_index=True)
    return end - 1 - backwards
