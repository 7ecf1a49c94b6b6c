"""How alike two devices are, by what they measured in common; devices that are nearly one are twins.

Notations:
    part: what of a device is granted: the whole of it, or a number of SMs set apart in one way. The whole of
        one device compares with the whole of another, however many SMs these have.
    shared task: a workload on a part that both devices measured, with at least ``LEAST_CONFIGS`` configs that
        ran on both. A config that fails on either does not enter.

A model that learned from one twin knows the other: holding out one alone measures nothing. Two devices are
twins where rankings agree, ``rho >= TWIN_RHO``, and so do latencies but for a constant factor of each task,
``deviation <= TWIN_DEVIATION``: a faster copy of a device is a twin of it, since what is chosen is a config.
Both are medians over the shared tasks, so that devices that agree on one kernel of several are no twins.

The thresholds lie in the middle, on scales of log(1 - rho) and log(deviation), of the widest gap in what was
measured, which is below the third line:

==========================================  =========================================  =====  =========
data                                        devices                                    rho    deviation
==========================================  =========================================  =====  =========
``datasets/sm-budgets``, 1,152 tasks        H100 80GB HBM3, H200                       1.000  0.005
Kernel Tuner, single-team/convolution       RTX 2080 Ti, TITAN RTX                      .998  0.004
Kernel Tuner, single-team/convolution       RTX 3060 Laptop, RTX 3090                   .991  0.011
Kernel Tuner, hub/convolution_milo          RTX A4000, RTX A6000                        .924  0.041
Kernel Tuner, single-team/gemm              RTX 3060 Laptop, RTX 3090                   .952  0.091
Kernel Tuner, single-team/gemm              RTX 2080 Ti, RTX 3090                       .934  0.085
Kernel Tuner, single-team/convolution       RTX 2080 Ti, RTX 3090                       .749  0.136
Kernel Tuner, hub/dedispersion_milo         RTX A4000, Radeon PRO W7800                 .697  0.079
==========================================  =========================================  =====  =========

Where only the convolution was measured, the laptop's RTX 3060 and the RTX 3090 are twins; a matrix product
sets them apart. A group that is too large makes an evaluation harder, one that is too small a pretence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.table._dataset import Dataset, make_categorical
from costmodel.records._platform import Platform

LEAST_CONFIGS = 8
TWIN_RHO = 0.98
TWIN_DEVIATION = 0.02


@dataclass(frozen=True)
class DeviceSimilarity:
    """Agreement of each two of d devices; symmetric matrices.

    Attributes:
        devices: The d names, in alphabetical order.
        rho: ``(d, d)`` median over shared tasks of Spearman's rank correlation of latencies, in [-1, 1]; 1 on
            the diagonal, NaN where nothing is shared.
        deviation: ``(d, d)`` how far latencies are from a constant factor, 0.01 is about 1 %: median over
            shared tasks of the median |log latency ratio - its median in the task|; 0 on the diagonal, NaN
            where nothing is shared.
        tasks: ``(d, d)`` number of shared tasks; of the diagonal, those of the device itself.
    """

    devices: tuple[str, ...]
    rho: NDArray[np.float64]
    deviation: NDArray[np.float64]
    tasks: NDArray[np.int64]


@dataclass(frozen=True)
class DevicePair:
    """Two devices that share tasks; see ``DeviceSimilarity``.

    Attributes:
        first: Name of one.
        second: Name of the other.
        tasks: Shared tasks.
        rho: Rank correlation.
        deviation: How far latencies are from a constant factor.
        twins: Whether a split holds them out as one.
    """

    first: str
    second: str
    tasks: int
    rho: float
    deviation: float
    twins: bool


def describe_pairs(similarity: DeviceSimilarity) -> tuple[DevicePair, ...]:
    """Return each two devices that share tasks, the most alike first."""
    group_of = {name: group for group in twin_groups(similarity) for name in group}
    pairs = (
        DevicePair(
            first,
            second,
            int(similarity.tasks[i, j]),
            float(similarity.rho[i, j]),
            float(similarity.deviation[i, j]),
            second in group_of.get(first, ()),
        )
        for (i, first), (j, second) in combinations(enumerate(similarity.devices), 2)
        if similarity.tasks[i, j]
    )
    return tuple(sorted(pairs, key=lambda pair: (-pair.rho, pair.first, pair.second)))


def device_similarity(dataset: Dataset) -> DeviceSimilarity:
    """Compare each pair of devices of a dataset on what both measured; this module defines the terms."""
    of_workload = latencies_by_part(dataset).groupby("workload", observed=True)
    return similarity_of(task_agreements(rows) for _, rows in of_workload)


def latencies_by_part(dataset: Dataset) -> pd.DataFrame:
    """Return the rows of a dataset for ``task_agreements``."""
    parts = [name_device_part(platform) for platform in dataset.platforms]
    return dataset.rows.assign(part=make_categorical(dataset.rows["platform"].to_numpy(), parts))


def name_device_part(platform: Platform) -> str:
    """Return the part of its device that a platform is."""
    return "whole" if platform.isolation == "whole" else f"{platform.isolation}/{platform.sms_granted}"


def task_agreements(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how each two devices agree on each task that they share; each device shares its own with itself.

    Args:
        rows: With columns ``workload``, ``part``, ``candidate``, ``device`` and ``latency_s``, inf where it
            did not run; of several latencies of one candidate, the geometric mean counts.

    Returns:
        Columns ``first``, ``second`` (names; a device without tasks has one row of NaN), ``rho``,
        ``deviation``.
    """
    latencies = _log_latencies(rows)
    names = list(map(str, latencies))
    workload, part, _ = latencies.index.codes  # type: ignore[attr-defined]
    cuts = np.flatnonzero((np.diff(workload) != 0) | (np.diff(part) != 0)) + 1
    shared = [
        agreement
        for task in np.split(latencies.to_numpy(), cuts)
        for agreement in _agreements([_Ranking.of(column) for column in task.T])
    ]
    own = {i for i, _, _, _ in shared}
    shared += [(i, i, np.nan, np.nan) for i in range(len(names)) if i not in own]
    first, second, rho, deviation = zip(*shared, strict=True) if shared else ((), (), (), ())
    return pd.DataFrame(
        {
            "first": np.array(names, dtype=object)[list(first)],
            "second": np.array(names, dtype=object)[list(second)],
            "rho": np.array(rho, dtype=np.float64),
            "deviation": np.array(deviation, dtype=np.float64),
        }
    )


def similarity_of(agreements: Iterable[pd.DataFrame]) -> DeviceSimilarity:
    """The similarity of the devices of datasets that share no workload, each as by ``task_agreements``."""
    every = pd.concat(list(agreements), ignore_index=True)
    devices = tuple(sorted(every["first"].unique()))
    rho, deviation = (np.full((len(devices),) * 2, np.nan) for _ in range(2))
    tasks = np.zeros((len(devices),) * 2, dtype=np.int64)
    for (first, second), shared in every.groupby(["first", "second"]):
        i, j = devices.index(first), devices.index(second)
        tasks[i, j] = tasks[j, i] = shared["deviation"].notna().sum()
        rho[i, j] = rho[j, i] = shared["rho"].median()
        deviation[i, j] = deviation[j, i] = shared["deviation"].median()
    np.fill_diagonal(rho, 1.0)
    np.fill_diagonal(deviation, 0.0)
    return DeviceSimilarity(devices, rho, deviation, tasks)


def twin_groups(
    similarity: DeviceSimilarity, *, least_rho: float = TWIN_RHO, most_deviation: float = TWIN_DEVIATION
) -> tuple[tuple[str, ...], ...]:
    """Group devices that are near-twins, directly or through others.

    Args:
        similarity: Comparison of the devices.
        least_rho: Lowest rank correlation of near-twins.
        most_deviation: Highest deviation of near-twins.

    Returns:
        Groups of two devices or more; none where the similarity is unknown.

    Example:
        >>> alike = DeviceSimilarity(("A", "B"), np.ones((2, 2)), np.zeros((2, 2)), np.full((2, 2), 9))
        >>> twin_groups(alike)
        (('A', 'B'),)
    """
    twins = (similarity.rho >= least_rho) & (similarity.deviation <= most_deviation)
    return tuple(
        tuple(similarity.devices[i] for i in group) for group in _components(twins) if len(group) > 1
    )


def _log_latencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Log latency of each (workload, part, candidate) on each device; NaN where it did not run."""
    index = [rows[name] for name in ("workload", "part", "candidate", "device")]
    table: pd.DataFrame = np.log(rows["latency_s"]).groupby(index).mean().unstack()
    return table.where(np.isfinite(table)).reindex(columns=sorted(rows["device"].unique()))


@dataclass(frozen=True)
class _Ranking:
    """The c configs of a task on one device, ranked once for any of them.

    Attributes:
        values: ``(c,)`` log latency; NaN where a config did not run.
        ran: ``(c,)`` whether it ran.
        order: Positions of those that ran, the fastest first.
        starts: Where in this order each run of equal values begins.
    """

    values: NDArray[np.float64]
    ran: NDArray[np.bool_]
    order: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "_Ranking":
        ran = ~np.isnan(values)
        order = np.argsort(values, kind="stable")[: ran.sum()]
        return cls(values, ran, order, np.flatnonzero(np.diff(values[order], prepend=-np.inf)))

    def ranks(self, taken: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Ranks of some that ran, among these, from 1, with ties at their mean."""
        counts = np.add.reduceat(taken[self.order], self.starts, dtype=np.int64)
        mean = np.cumsum(counts) - (counts - 1) / 2
        ranks = np.empty(len(self.values))
        ranks[self.order] = np.repeat(mean, np.diff(self.starts, append=len(self.order)))
        return ranks[taken]


def _agreements(devices: Sequence[_Ranking]) -> Iterator[tuple[int, int, float, float]]:
    """Of a task, each two devices that share it (positions), ``rho`` and ``deviation``.

    Spearman's rho is Pearson's correlation of the ranks; NaN where all are tied.
    """
    enough = [i for i, device in enumerate(devices) if device.ran.sum() >= LEAST_CONFIGS]
    yield from ((i, i, 1.0, 0.0) for i in enough)
    for i, j in combinations(enough, 2):
        both = devices[i].ran & devices[j].ran
        if both.sum() < LEAST_CONFIGS:
            continue
        x, y = (devices[k].ranks(both) - (both.sum() + 1) / 2 for k in (i, j))
        spread = np.sqrt((x @ x) * (y @ y))
        ratio = devices[i].values[both] - devices[j].values[both]
        deviation = np.median(np.abs(ratio - np.median(ratio)))
        yield i, j, float(x @ y / spread) if spread else np.nan, float(deviation)


def _components(edges: NDArray[np.bool_]) -> Iterator[list[int]]:
    """Connected components of an undirected graph, by their lowest node."""
    left = set(range(len(edges)))
    while left:
        group, reached = set[int](), {min(left)}
        while reached:
            group |= reached
            reached = {int(j) for i in reached for j in np.flatnonzero(edges[i])} - group
        left -= group
        yield sorted(group)
