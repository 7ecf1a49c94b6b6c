"""A dataset in memory: candidates, platforms and one row for each measurement."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from costmodel.records import Candidate, Measurement, Outcome, Platform


@dataclass(frozen=True)
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
            ``measured_at``, ``error``.
    """

    candidates: tuple[Candidate, ...]
    platforms: tuple[Platform, ...]
    measurements: pd.DataFrame

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

    def to_measurements(self, workload: str | None = None) -> list[Measurement]:
        """The records that the table was made of, all of them or those of one workload (by name)."""
        frame = self.measurements
        if workload is not None:
            frame = frame[np.array(self.measured_workloads) == workload]
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
            for row in frame.to_dict("records")
        ]
