"""Contents of a dataset in numbers: counts, noise, spread of quality and the budget gap."""

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from costmodel.dataset.publish._tasks import (
    Budget,
    CandidateCounts,
    Coverage,
    Task,
    count_candidates,
    describe_budgets,
    describe_coverage,
    describe_tasks,
)
from costmodel.dataset.splits._similarity import (
    DevicePair,
    describe_pairs,
    latencies_by_part,
    similarity_of,
    task_agreements,
)
from costmodel.dataset.table._columns import lengths_of, reduce_lists
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, Track, iter_datasets, load_dataset, show_nothing
from costmodel.dataset.table._schema import schema_of
from costmodel.records._measurement import Outcome
from costmodel.records._platform import Platform
from costmodel.tracking._items import DatasetUsed

_TIME_UNITS = (("s", 0), ("ms", -3), ("us", -6), ("ns", -9))


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of relative differences; 0.01 means 1 %. All are NaN if there are none.

    Attributes:
        count: How many differences.
        median: 50th percentile.
        p90: 90th percentile.
        p99: 99th percentile.
        max: Largest.
    """

    count: int
    median: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Noise:
    """How far equal measurements differ.

    Attributes:
        repeats: (slowest - fastest) / median over the repeats of one measurement.
        visits: abs(median of visit 1 / median of visit 0 - 1) of candidates that met a platform twice (A/A).
        visits_by_latency: The same by decade of the latency, such as "10 us - 100 us", shortest first.
    """

    repeats: Quantiles
    visits: Quantiles
    visits_by_latency: dict[str, Quantiles]


def describe_noise(repeats: ArrayLike, shifts: pd.DataFrame) -> Noise:
    """Noise of a dataset, of its ``repeat_spreads`` and ``visit_shifts``."""
    decades = np.floor(np.log10(shifts["latency_s"])).astype(int)
    return Noise(
        repeats=quantiles(repeats),
        visits=quantiles(shifts["shift"]),
        visits_by_latency={
            f"{_power_of_ten(decade)} - {_power_of_ten(decade + 1)}": quantiles(group)
            for decade, group in shifts["shift"].groupby(decades)
        },
    )


def repeat_spreads(measurements: pd.DataFrame) -> NDArray[np.float64]:
    """(slowest - fastest) / median over the repeats of each measurement that is ok."""
    ok = measurements[measurements["outcome"] == "ok"]
    spreads: NDArray[np.float64] = (
        reduce_lists(pa.array(ok["latencies_s"]), _width) / ok["latency_s"].to_numpy()
    )
    return spreads


def _width(latencies_s: NDArray[np.float64]) -> NDArray[np.float64]:
    width: NDArray[np.float64] = latencies_s.max(axis=1) - latencies_s.min(axis=1)
    return width


def visit_shifts(measurements: pd.DataFrame) -> pd.DataFrame:
    """For each candidate that met a platform twice, ``latency_s`` of visit 0 and the relative ``shift``."""
    alone = lengths_of(pa.array(measurements["co_runners"])) == 0
    ok = measurements[(measurements["outcome"] == "ok") & alone]
    visits = ok.groupby(["candidate", "platform", "visit"])["latency_s"].mean().unstack()
    pairs = visits.reindex(columns=[0, 1]).dropna()
    return pd.DataFrame({"latency_s": pairs[0], "shift": (pairs[1] / pairs[0] - 1).abs()})


def quantiles(differences: ArrayLike) -> Quantiles:
    """Quantiles of some relative differences."""
    values = np.asarray(differences, dtype=np.float64)
    points = np.quantile(values, [0.5, 0.9, 0.99, 1.0]) if values.size else np.full(4, np.nan)
    return Quantiles(values.size, *map(float, points))


def _power_of_ten(exponent: int) -> str:
    """Ten to this power in seconds, such as ``100 us``."""
    unit, base = next((unit, base) for unit, base in _TIME_UNITS if exponent >= base or unit == "ns")
    return f"{10 ** (exponent - base):g} {unit}"


@dataclass(frozen=True)
class DatasetDescription:
    """Contents of a dataset in figures.

    Attributes:
        workloads: Number of distinct workloads.
        candidates: Number of distinct candidates.
        kernels: Number of distinct generated sources; None if sources are not recorded.
        working_kernels: By workload, the number of different kernels that work wherever they were measured.
            Kernels differ by generated source, or by candidate if the source is not recorded.
        platforms: Number of distinct platforms.
        measurements: Number of rows, A/A repeats included.
        outcomes: Number of rows by outcome, the most frequent first.
        devices: Names of the devices.
        software: Software versions used for the measurements.
        measured_from: Day of the first measurement, ISO 8601; ``unknown`` if no measurement is dated.
        measured_to: Day of the last measurement, in the same form.
        noise: How much repeated measurements of the same kernel differ.
        tasks: The tasks, ordered by workload, then device, SMs and isolation.
        budgets: The SM budgets, ordered by device, SMs and isolation.
        pairs: Similarity of each pair of devices, the most similar first.
        coverage: Each workload on each platform, measured or not; platforms in the order of ``budgets``.
    """

    workloads: int
    candidates: int
    kernels: int | None
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


def describe(dataset: DatasetLike | None = None) -> DatasetDescription:
    """Describe a dataset with at least one measurement; see ``load_dataset`` for the argument."""
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
    def of(cls, dataset: DatasetLike | None = None, track: Track = show_nothing) -> Self:
        """Make a describer of a dataset. A dataset that is not loaded is read one workload at a time.

        Args:
            dataset: Dataset, or its name or path; see ``load_dataset``.
            track: Reports progress. Default: no report.

        Raises:
            CostModelError: If the dataset cannot be read.
        """
        describer = cls()
        for part in [dataset] if isinstance(dataset, Dataset) else iter_datasets(dataset, track):
            describer.add(part)
        return describer

    def add(self, part: Dataset) -> None:
        """Add some workloads."""
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
        """Return the ``visit_shifts`` of all parts."""
        return pd.concat(self._shifts, ignore_index=True)

    def description(self) -> DatasetDescription:
        """Describe all parts together. They must contain at least one measurement."""
        budgets = describe_budgets(self._tasks, self._platforms.values())
        days = self._days or {"unknown"}
        return DatasetDescription(
            workloads=len(self._working_kernels),
            candidates=self._candidates,
            kernels=len(np.unique(np.concatenate(self._kernels))) or None,
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
    """Return kernels of each workload that work wherever they were measured."""
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


def describe_used_dataset(dataset: DatasetLike, context: str) -> DatasetUsed:
    """Return name, hash, columns and counts of a dataset.

    Args:
        dataset: Dataset, or its name or path.
        context: What the dataset was used for, such as ``training``.

    Raises:
        CostModelError: If it is not a dataset, see ``load_dataset``.
    """
    used = load_dataset(dataset)
    return DatasetUsed(
        name=used.name,
        sha256=used.sha256,
        source=used.file.path if used.file else None,
        schema={field.name: _kind(field.type) for field in schema_of(used.columns.table)},
        profile={
            # MLflow's pages show the first by this name.
            "num_rows": len(used.measurements),
            "failed": int((used.measurements["outcome"] != Outcome.OK).sum()),
            "workloads": len(used.workloads),
            "candidates": len(used.candidates),
            "platforms": len(used.platforms),
        },
        context=context,
    )


def _kind(kind: Any) -> Any:
    """Return a column's type as schemas of MLflow have it."""
    if pa.types.is_list(kind):
        return {"type": "array", "items": _nested(kind.value_type)}
    if pa.types.is_struct(kind):
        properties = {field.name: {**_nested(field.type), "required": True} for field in kind}
        return {"type": "object", "properties": properties}
    return {pa.string(): "string", pa.int64(): "long", pa.float64(): "double"}[kind]


def _nested(kind: Any) -> dict[str, Any]:
    found = _kind(kind)
    return {"type": found} if isinstance(found, str) else found
