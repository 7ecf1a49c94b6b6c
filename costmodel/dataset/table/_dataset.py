"""A dataset in memory: candidates, platforms and one row for each measurement."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.dataset.table._candidates import Candidates
from costmodel.dataset.table._columns import lengths_of, number_combinations, reduce_to_medians
from costmodel.dataset.table._records import ROWS, Records
from costmodel.dataset.table._schema import FILE_NAME, PARTS_NAME
from costmodel.errors import CostModelError, did_you_mean
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.report._page import facts_html

_MOST_NAMED = 12  # operator kinds and outcomes


# Columns of a row that hold one value each.
_SCALARS = (
    *("visit", "outcome", "runs_per_repeat", "l2_policy", "kernel_hash", "attempts", "board", "measured_at"),
    "error",
)
_NESTED = ("latencies_s", "before", "after", "resources", "co_runners")


@dataclass(frozen=True)
class DatasetFile:
    """What a dataset was read from.

    Attributes:
        path: The parquet file, or the folder of its parts.
        sha256: SHA-256 of the whole, 64 hexadecimal digits; see ``DataFiles``.
    """

    path: Path
    sha256: str


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Table of measurements over distinct candidates and platforms.

    Attributes:
        candidates: The distinct candidates. Each becomes an object only when it is accessed.
        platforms: The distinct platforms.
        measurements: One row per measurement, A/A repeats included. Columns: ``candidate`` and ``platform``
            (positions in the sequences above), ``visit``, ``outcome``, ``latency_s`` (median of the repeats,
            inf unless ok), ``runs_per_repeat``, ``l2_policy``, ``kernel_hash``, ``attempts``, ``board``,
            ``measured_at`` and ``error``. Arrow columns: ``latencies_s`` (list of all repeats), ``resources``
            (list of structs, one per kernel), ``before`` and ``after`` (structs, see ``DeviceState``) and
            ``co_runners`` (list of candidate ids). See ``to_measurements`` for objects.
        file: File that the dataset was read from; None if it was made in memory.
    """

    candidates: Sequence[Candidate]
    platforms: tuple[Platform, ...]
    measurements: pd.DataFrame
    file: DatasetFile | None = None

    @classmethod
    def of(cls, records: Records, file: DatasetFile | None = None) -> "Dataset":
        """Make a dataset of these records, with one object per distinct candidate or platform.

        The launches of a candidate, and the device and requested SMs of a platform, are taken from its first
        row. A platform measured under several versions of a software lists all of them, as in ``"580.1,
        590.2"``.
        """
        ids = pd.factorize(np.asarray(records.candidates["candidate_id"].to_pandas()))[0]
        candidate = number_combinations([ids[records.candidate]])
        platform_ids = pd.factorize(np.array([each.platform_id for each in records.platforms], object))[0]
        platform = number_combinations([platform_ids[records.platform]])
        frame = pd.DataFrame({"candidate": candidate, "platform": platform})
        read = records.rows.column_names
        scalars = records.rows.select([name for name in _SCALARS if name in read])
        frame = pd.concat([frame, scalars.to_pandas()], axis=1)
        frame["latency_s"] = reduce_to_medians(records.rows["latencies_s"])
        for name in (name for name in _NESTED if name in read):
            frame[name] = pd.Series(pd.arrays.ArrowExtensionArray(records.rows[name]))
        first = records.candidate[np.unique(candidate, return_index=True)[1]]
        candidates = Candidates(records.candidates.take(pa.array(first)))
        return cls(candidates, _with_all_software(records, platform), frame, file)

    @property
    def name(self) -> str:
        """Name of the dataset's folder, or of its file if the file has no folder of its own."""
        if self.file is None:
            return "in memory"
        path = self.file.path.resolve()
        return path.parent.name if path.name in (FILE_NAME, PARTS_NAME) else path.stem

    @cached_property
    def sha256(self) -> str:
        """SHA-256 that identifies the content, 64 hexadecimal digits.

        The hash is that of the file that the dataset was read from. For a dataset made in memory, it is that
        of its records as sorted JSON lines.
        """
        if self.file is not None:
            return self.file.sha256
        lines = sorted(map(msgspec.json.Encoder().encode, self.to_measurements()))
        return hashlib.sha256(b"\n".join(lines)).hexdigest()

    @cached_property
    def columns(self) -> Candidates:
        """The candidates as columns."""
        return Candidates.of(self.candidates)

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads, in alphabetical order."""
        return tuple(workload.name for workload in self.columns.workloads)

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices, in alphabetical order."""
        return tuple(sorted({platform.device.name for platform in self.platforms}))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Return one row per (candidate, platform): its positions in both sequences, names, and one latency.

        Columns: ``candidate``, ``platform``, ``workload`` (name), ``kind``, ``device`` (name),
        ``sms_granted``, ``task`` (workload name @ platform name) and ``latency_s``. The latency is the
        geometric mean of the visits' medians, inf if any visit failed. Measurements made alongside co-runners
        are left out.
        """
        frame = self.measurements
        alone = frame[lengths_of(pa.array(frame["co_runners"])) == 0]
        grouped = np.log(alone["latency_s"]).groupby([alone["candidate"], alone["platform"]], sort=True)
        rows: pd.DataFrame = np.exp(grouped.mean()).reset_index()
        workload, platform = self.columns.workload_of[rows["candidate"]], rows["platform"].to_numpy()
        rows["workload"] = make_categorical(workload, self.workloads)
        rows["kind"] = make_categorical(workload, [each.kind for each in self.columns.workloads])
        rows["device"] = make_categorical(platform, [each.device.name for each in self.platforms])
        rows["sms_granted"] = self._granted[platform]
        rows["task"] = self._tasks(workload, platform)
        return rows

    @cached_property
    def measured_workloads(self) -> pd.Categorical:
        """Return the workload's name for each row of ``measurements``."""
        return make_categorical(self.columns.workload_of[self.measurements["candidate"]], self.workloads)

    @cached_property
    def _granted(self) -> NDArray[np.int64]:
        return np.array([platform.sms_granted for platform in self.platforms], np.int64)

    def _tasks(self, workload: NDArray[np.int64], platform: NDArray[np.int64]) -> pd.Categorical:
        """Name of each row's task."""
        width = len(self.platforms)
        tasks, task_of = np.unique(workload * width + platform, return_inverse=True)
        names = [f"{self.workloads[i // width]}@{self.platforms[i % width].name}" for i in tasks]
        return make_categorical(task_of, names)

    def to_pandas(self, workload: Workload | str | None = None) -> pd.DataFrame:
        """Return a table of plain values, with one row per measurement in the order of ``measurements``.

        Columns: ``workload`` (name), ``kind``, ``dtype``, ``device`` (name), ``isolation``, ``sms_granted``;
        one ``config.<parameter>`` per parameter, with the factors of a tiled loop as text such as ``8x2x4``,
        missing where a kernel does not have the parameter; ``outcome``, ``latency_s`` (median of the repeats,
        missing unless ok), ``repeats`` (number of repeats), ``visit`` (1 for the A/A repeat), ``co_runners``
        (number of kernels that ran at the same time), ``l2_policy``, ``measured_at`` and ``error``.

        Args:
            workload: Workload to return, without the parameters that only other workloads have. Default: all.

        Raises:
            CostModelError: If the workload was not measured.

        Example:
            >>> frame = load_dataset().to_pandas("softmax-m1536-n128")  # doctest: +SKIP
            >>> frame.groupby("sms_granted")["latency_s"].min()  # doctest: +SKIP
        """
        frame = self._measured(workload)
        kernel, workloads = self.columns.workload_of[frame["candidate"]], self.columns.workloads
        platform, platforms = frame["platform"].to_numpy(), self.platforms
        configs = pd.DataFrame.from_dict(
            {i: _plain_config(self.candidates[i]) for i in frame["candidate"].unique()}, orient="index"
        )
        columns: dict[str, Any] = {
            "workload": make_categorical(kernel, self.workloads).astype("str"),
            "kind": make_categorical(kernel, [each.kind for each in workloads]).astype("str"),
            "dtype": make_categorical(kernel, [each.dtype for each in workloads]).astype("str"),
            "device": make_categorical(platform, [each.device.name for each in platforms]).astype("str"),
            "isolation": make_categorical(platform, [each.isolation for each in platforms]).astype("str"),
            "sms_granted": self._granted[platform],
            **{str(name): values for name, values in configs.loc[frame["candidate"]].items()},
            "outcome": frame["outcome"],
            "latency_s": frame["latency_s"].where(np.isfinite(frame["latency_s"])),
            "repeats": lengths_of(pa.array(frame["latencies_s"])),
            "visit": frame["visit"],
            "co_runners": lengths_of(pa.array(frame["co_runners"])),
            **{name: frame[name] for name in ("l2_policy", "measured_at", "error")},
        }
        return pd.DataFrame({name: _without_index(values) for name, values in columns.items()})

    def to_measurements(self, workload: Workload | str | None = None) -> list[Measurement]:
        """Return the measurements as objects.

        Args:
            workload: Workload to return. Default: all.

        Raises:
            CostModelError: If the workload was not measured.
        """
        return list(self.to_records(workload).measurements())

    def to_records(self, workload: Workload | str | None = None) -> Records:
        """Return the measurements as columns; see ``to_measurements``."""
        frame = self._measured(workload)
        columns = [pa.array(frame[name], ROWS.field(name).type) for name in ROWS.names]
        rows = pa.Table.from_arrays(columns, schema=ROWS)
        return Records(self.columns.table, self.platforms, rows)

    def __repr__(self) -> str:
        """Return what it holds, in a line."""
        return (
            f"<Dataset {self.name!r}: {len(self.measurements):,} measurements of {len(self.candidates):,} "
            f"candidates and {len(self.workloads):,} workloads, on {len(self.platforms)} platforms of "
            f"{', '.join(self.devices)}>"
        )

    def _repr_html_(self) -> str:
        """Return what it holds, as a small table in a notebook."""
        facts = dataset_facts(self.columns, self.platforms, self.measurements["outcome"])
        return facts_html(self.name, facts | ({"sha256": self.sha256[:16]} if self.file else {}))

    def _measured(self, workload: Workload | str | None) -> pd.DataFrame:
        """Return the rows of ``measurements`` of one workload, or all.

        Raises:
            CostModelError: The workload was not measured, or not all was read of the measurements.
        """
        if unread := [name for name in ROWS.names if name not in self.measurements]:
            raise CostModelError(
                f"All facts of the measurements of {self.name} must have been read, but {', '.join(unread)} "
                "were not. Load the dataset without `facts`."
            )
        if workload is None:
            return self.measurements
        name = workload.name if isinstance(workload, Workload) else workload
        chosen: pd.DataFrame = self.measurements[self.measured_workloads == name]
        if chosen.empty:
            raise CostModelError(
                f"The workload must be one of the {len(self.workloads)} of {self.name}, but got {name!r}."
                + (did_you_mean(name, self.workloads) or f" It has {', '.join(self.workloads)}.")
            )
        return chosen


def _plain_config(candidate: Candidate) -> dict[str, int | float | str]:
    """Return a candidate's parameters as columns of a plain table."""
    decisions = candidate.config.decisions.items()
    return {
        f"config.{name}": "x".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in decisions
    }


def make_categorical(codes: NDArray[np.int64], names: Sequence[str]) -> pd.Categorical:
    """``names[code]`` of each code, as categories in alphabetical order."""
    categories, place = np.unique(np.array(names, dtype=object), return_inverse=True)
    # Objects, which rows share: of a column of texts NumPy gets an object for each row.
    return pd.Categorical.from_codes(place[codes], pd.Index(categories, dtype=object))


def _with_all_software(records: Records, platform: NDArray[np.int64]) -> tuple[Platform, ...]:
    """Return the platforms, each with all versions of each software, in order and without repetition.

    Args:
        records: What was measured.
        platform: ``(n,)`` position of each row's platform among those that are returned.
    """
    pairs = pd.DataFrame({"platform": platform, "at": records.platform}).drop_duplicates()
    found: dict[int, Platform] = {}
    versions: dict[int, dict[str, list[str]]] = {}
    for position, at in pairs.itertuples(index=False):
        found.setdefault(position, records.platforms[at])
        for name, version in records.platforms[at].software.items():
            seen = versions.setdefault(position, {}).setdefault(name, [])
            if version not in seen:
                seen.append(version)
    return tuple(
        msgspec.structs.replace(
            each, software={name: ", ".join(seen) for name, seen in versions.get(position, {}).items()}
        )
        for position, each in found.items()
    )


def _without_index(values: Any) -> Any:
    return values.array if isinstance(values, pd.Series) else values


def dataset_facts(
    candidates: Candidates, platforms: Iterable[Platform], outcomes: Iterable[str]
) -> dict[str, str]:
    """Return what a dataset holds, each number with its name.

    Args:
        candidates: Its candidates.
        platforms: Its platforms.
        outcomes: Outcome of each measurement.
    """
    by_outcome = Counter(outcomes)
    workloads = candidates.workloads
    by_kind = Counter(workload.kind for workload in workloads)
    return {
        "measurements": f"{by_outcome.total():,} ({_listed(by_outcome)})",
        "candidates": f"{len(candidates):,}",
        "workloads": f"{len(workloads):,} ({_listed(by_kind)})",
        **_parts_of_devices(platforms),
    }


def _parts_of_devices(platforms: Iterable[Platform]) -> dict[str, str]:
    """Return the SMs granted of each device, by how they were set apart."""
    granted: dict[str, dict[str, list[int]]] = {}
    for platform in platforms:
        parts = granted.setdefault(platform.device.name, {})
        parts.setdefault(platform.isolation, []).append(platform.sms_granted)
    return {
        device: "; ".join(
            f"{', '.join(map(str, sorted(sms)))} SMs ({isolation})"
            for isolation, sms in sorted(parts.items())
        )
        for device, parts in sorted(granted.items())
    }


def _listed(counts: "Counter[str]") -> str:
    """Return names with their counts, the most frequent first."""
    named = [f"{name} {count:,}" for name, count in counts.most_common(_MOST_NAMED)]
    return ", ".join([*named, "..."] if len(counts) > _MOST_NAMED else named)
