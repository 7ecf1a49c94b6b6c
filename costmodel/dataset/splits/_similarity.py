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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.table import Dataset, named
from costmodel.records import Platform

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
    """Each two devices that share tasks, the most alike first."""
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
    """Compare each two devices of a dataset on what both measured; see this module for the words."""
    return similarity_of([task_agreements(latencies_by_part(dataset))])


def latencies_by_part(dataset: Dataset) -> pd.DataFrame:
    """The rows of a dataset for ``task_agreements``."""
    parts = [device_part(platform) for platform in dataset.platforms]
    return dataset.rows.assign(part=named(dataset.rows["platform"].to_numpy(), parts))


def device_part(platform: Platform) -> str:
    """The part of its device that a platform is."""
    return "whole" if platform.isolation == "whole" else f"{platform.isolation}/{platform.sms_granted}"


def task_agreements(rows: pd.DataFrame) -> pd.DataFrame:
    """How each two devices agree on each task that they share; each device shares its own with itself.

    Args:
        rows: With columns ``workload``, ``part``, ``candidate``, ``device`` and ``latency_s``, inf where it
            did not run; of several latencies of one candidate, the geometric mean counts.

    Returns:
        Columns ``first``, ``second`` (names; a device without tasks has one row of NaN), ``rho``,
        ``deviation``.
    """
    latencies = _log_latencies(rows)
    frames = []
    for name in map(str, latencies):
        own = len(_by_task(latencies[name].dropna()))
        alike = pd.DataFrame({"rho": 1.0, "deviation": 0.0}, index=range(own)).reindex(range(max(own, 1)))
        frames.append(alike.assign(first=name, second=name))
    for first, second in combinations(latencies.columns, 2):
        agreement = _agreement(latencies[[first, second]].dropna())
        frames.append(agreement.assign(first=first, second=second))
    return pd.concat(frames, ignore_index=True)


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
    """Groups of two devices or more that are twins, of each other or through others; none where unknown.

    Args:
        similarity: What was measured in common.
        least_rho: Rank correlation that twins have at least.
        most_deviation: Deviation that they have at most.

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


def _by_task(values: "pd.Series[float]") -> "pd.Series[int]":
    """Number of configs of each task that has enough."""
    counts: pd.Series[int] = values.groupby(level=["workload", "part"]).size()
    return counts[counts >= LEAST_CONFIGS]


def _agreement(pair: pd.DataFrame) -> pd.DataFrame:
    """``rho`` and ``deviation`` of two columns of log latencies, one row a shared task.

    Spearman's rho is Pearson's correlation of the ranks, ties at their mean; NaN where all are tied.
    """
    task = ["workload", "part"]
    ranks = pair.groupby(level=task).rank()
    first, second = (ranks[name] - ranks[name].groupby(level=task).transform("mean") for name in ranks)
    products = pd.DataFrame({"xy": first * second, "xx": first**2, "yy": second**2})
    sums = products.groupby(level=task).sum()
    ratio = pair.iloc[:, 0] - pair.iloc[:, 1]
    off = (ratio - ratio.groupby(level=task).transform("median")).abs()
    agreement = pd.DataFrame(
        {"rho": sums["xy"] / np.sqrt(sums["xx"] * sums["yy"]), "deviation": off.groupby(level=task).median()}
    )
    return agreement.loc[_by_task(ratio).index]


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
