"""A dataset in memory: candidates, platforms and one row for each measurement."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from costmodel.dataset.table._display import dataset_facts, html_table
from costmodel.dataset.table._schema import FILE_NAME
from costmodel.errors import CostModelError, did_you_mean
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload


@dataclass(frozen=True)
class DatasetFile:
    """The file that a dataset was read from.

    Attributes:
        path: The parquet file.
        sha256: SHA-256 of it, 64 hexadecimal digits.
    """

    path: Path
    sha256: str


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Measurements as a table over the distinct candidates and platforms.

    Attributes:
        candidates: The distinct candidates.
        platforms: The distinct platforms.
        measurements: One row a measurement, A/A repeats included: ``candidate`` and ``platform`` (positions
            in the tuples above), ``visit``, ``outcome``, ``latency_s`` (median of its repeats, inf unless
            ok), ``latencies_s`` (array of all repeats), ``runs_per_repeat``, ``l2_policy``,
            ``kernel_hash``, ``resources`` (tuple of ``KernelResources``), ``before`` and ``after``
            (``DeviceState``), ``attempts``, ``board``, ``co_runners`` (tuple of candidate ids),
            ``measured_at``, ``error``. See ``to_pandas`` for a table without objects.
        file: Where it was read from; None if it was made in memory.
    """

    candidates: tuple[Candidate, ...]
    platforms: tuple[Platform, ...]
    measurements: pd.DataFrame
    file: DatasetFile | None = None

    @property
    def name(self) -> str:
        """Name of its folder, or of its file where that is named otherwise than in a folder of its own."""
        if self.file is None:
            return "in memory"
        path = self.file.path.resolve()
        return path.parent.name if path.name == FILE_NAME else path.stem

    @cached_property
    def sha256(self) -> str:
        """What identifies its content, 64 hexadecimal digits.

        SHA-256 of the file that it was read from; of one made in memory, of its records as sorted JSON lines.
        """
        if self.file is not None:
            return self.file.sha256
        lines = sorted(map(msgspec.json.Encoder().encode, self.to_measurements()))
        return hashlib.sha256(b"\n".join(lines)).hexdigest()

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads, in alphabetical order."""
        return tuple(sorted({candidate.workload.name for candidate in self.candidates}))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices, in alphabetical order."""
        return tuple(sorted({platform.device.name for platform in self.platforms}))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row for each (candidate, platform): its position in both tuples, names, and one latency.

        Columns: ``candidate``, ``platform``, ``workload`` (name), ``kind``, ``device`` (name),
        ``sms_granted``, ``task`` (workload name @ platform name) and ``latency_s``: the geometric mean of the
        visits' medians, inf if any visit failed. What was measured beside co-runners does not enter.
        """
        alone = self.measurements[~self.measurements["co_runners"].astype(bool)]
        grouped = np.log(alone["latency_s"]).groupby([alone["candidate"], alone["platform"]], sort=True)
        rows: pd.DataFrame = np.exp(grouped.mean()).reset_index()
        workloads = [self.candidates[i].workload for i in rows["candidate"]]
        platforms = [self.platforms[i] for i in rows["platform"]]
        rows["workload"] = [workload.name for workload in workloads]
        rows["kind"] = [workload.kind for workload in workloads]
        rows["device"] = [platform.device.name for platform in platforms]
        rows["sms_granted"] = [platform.sms_granted for platform in platforms]
        rows["task"] = [f"{w.name}@{p.name}" for w, p in zip(workloads, platforms, strict=True)]
        return rows

    @cached_property
    def measured_workloads(self) -> list[str]:
        """Name of the workload of each row of ``measurements``."""
        return [self.candidates[i].workload.name for i in self.measurements["candidate"]]

    def to_pandas(self, workload: Workload | str | None = None) -> pd.DataFrame:
        """A table of plain values: one row a measurement, in the order of ``measurements``.

        Columns: ``workload`` (name), ``kind``, ``dtype``, ``device`` (name), ``isolation``, ``sms_granted``;
        for each parameter a ``config.<parameter>``, with the factors of a tiled loop as a text such as
        ``8x2x4``, missing where a kernel has no such parameter; ``outcome``, ``latency_s`` (median of the
        repeats, missing unless ok), ``repeats`` (how many there are), ``visit`` (1 for the A/A repeat),
        ``co_runners`` (how many ran beside it), ``l2_policy``, ``measured_at`` and ``error``.

        Args:
            workload: The workload to take, without parameters that only others have; all if None.

        Raises:
            CostModelError: It was not measured.

        Example:
            >>> frame = load_dataset().to_pandas("softmax-m1536-n128")  # doctest: +SKIP
            >>> frame.groupby("sms_granted")["latency_s"].min()  # doctest: +SKIP
        """
        frame = self._measured(workload)
        workloads = [self.candidates[i].workload for i in frame["candidate"]]
        platforms = [self.platforms[i] for i in frame["platform"]]
        configs = pd.DataFrame.from_dict(
            {i: _plain_config(self.candidates[i]) for i in frame["candidate"].unique()}, orient="index"
        )
        columns: dict[str, Any] = {
            "workload": [workload.name for workload in workloads],
            "kind": [workload.kind for workload in workloads],
            "dtype": [workload.dtype for workload in workloads],
            "device": [platform.device.name for platform in platforms],
            "isolation": [platform.isolation for platform in platforms],
            "sms_granted": [platform.sms_granted for platform in platforms],
            **{str(name): values for name, values in configs.loc[frame["candidate"]].items()},
            "outcome": frame["outcome"],
            "latency_s": frame["latency_s"].where(np.isfinite(frame["latency_s"])),
            "repeats": frame["latencies_s"].map(len),
            "visit": frame["visit"],
            "co_runners": frame["co_runners"].map(len),
            **{name: frame[name] for name in ("l2_policy", "measured_at", "error")},
        }
        return pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})

    def to_measurements(self, workload: Workload | str | None = None) -> list[Measurement]:
        """The records that the table was made of, all of them or those of one workload.

        Raises:
            CostModelError: The workload was not measured.
        """
        return [
            Measurement(
                candidate=self.candidates[row["candidate"]],
                platform=self.platforms[row["platform"]],
                outcome=Outcome(row["outcome"]),
                latencies_s=tuple(row["latencies_s"].tolist()),
                runs_per_repeat=row["runs_per_repeat"],
                visit=row["visit"],
                l2_policy=row["l2_policy"],
                kernel_hash=row["kernel_hash"],
                resources=row["resources"],
                before=row["before"],
                after=row["after"],
                attempts=row["attempts"],
                board=row["board"],
                co_runners=row["co_runners"],
                measured_at=row["measured_at"],
                error=row["error"],
            )
            for row in self._measured(workload).to_dict("records")
        ]

    def __repr__(self) -> str:
        """What it holds, in a line."""
        return (
            f"<Dataset {self.name!r}: {len(self.measurements):,} measurements of {len(self.candidates):,} "
            f"candidates and {len(self.workloads):,} workloads, on {len(self.platforms)} platforms of "
            f"{', '.join(self.devices)}>"
        )

    def _repr_html_(self) -> str:
        """What it holds, as a small table in a notebook."""
        facts = dataset_facts(self.candidates, self.platforms, self.measurements["outcome"])
        return html_table(self.name, facts | ({"sha256": self.sha256[:16]} if self.file else {}))

    def _measured(self, workload: Workload | str | None) -> pd.DataFrame:
        """The rows of ``measurements`` of one workload, or all."""
        if workload is None:
            return self.measurements
        name = workload.name if isinstance(workload, Workload) else workload
        chosen: pd.DataFrame = self.measurements[np.array(self.measured_workloads) == name]
        if chosen.empty:
            raise CostModelError(
                f"The workload must be one of the {len(self.workloads)} of {self.name}, but got {name!r}."
                + (did_you_mean(name, self.workloads) or f" It has {', '.join(self.workloads)}.")
            )
        return chosen


def _plain_config(candidate: Candidate) -> dict[str, int | float | str]:
    """A candidate's parameters as columns of a plain table."""
    decisions = candidate.config.decisions.items()
    return {
        f"config.{name}": "x".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in decisions
    }
