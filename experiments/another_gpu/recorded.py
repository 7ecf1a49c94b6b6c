"""What was measured, as a table of kernels by platforms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from kit.caches import name_kernel, read_kernel

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.splits._make import drop_final_report
from costmodel.features import extract
from costmodel.features._latency_parts import LatencyParts, PartSettings, latency_parts
from costmodel.features._table import FeatureTable
from costmodel.records import Candidate, Platform
from costmodel.transfer import TransferModel, make_model
from costmodel.transfer._carry import Carried, carry_parts

SMS = (8, 16, 32, 64, 96, 132)


@dataclass(frozen=True)
class Recorded:
    """Kernels that ran on several platforms.

    Attributes:
        name: Of the data.
        dataset: Rows of these kernels among others.
        at: ``(n,)`` positions of the kernels in the dataset.
        platforms: The p platforms.
        latency_s: ``(n, p)`` seconds; NaN where one did not run or was not measured.
    """

    name: str
    dataset: Dataset
    at: np.ndarray
    platforms: tuple[Platform, ...]
    latency_s: np.ndarray

    @cached_property
    def candidates(self) -> list[Candidate]:
        return [self.dataset.candidates[i] for i in self.at]

    @cached_property
    def workloads(self) -> np.ndarray:
        return np.array([each.workload.name for each in self.candidates])

    @cached_property
    def features(self) -> FeatureTable:
        """Of each kernel on each platform, kernels first: row ``i * p + j``."""
        p = len(self.platforms)
        kernels = [each for each in self.candidates for _ in range(p)]
        return extract(kernels, list(self.platforms) * len(self.candidates))

    @cached_property
    def _parts(self) -> dict[tuple[int, PartSettings], LatencyParts]:
        return {}

    def parts(self, platform: int, settings: PartSettings) -> LatencyParts:
        """Parts of latencies on a platform, which are told once."""
        key = (platform, settings)
        if key not in self._parts:
            pairs = self.candidates, [self.platforms[platform]] * len(self.candidates)
            self._parts[key] = latency_parts(*pairs, settings)
        return self._parts[key]

    def carried(self, known: int, to: int, settings: PartSettings = PartSettings()) -> Carried:  # noqa: B008
        """Latencies on one platform, carried over from another."""
        n = len(self.candidates)
        return carry_parts(
            self.latency_s[:, known],
            self.parts(known, settings),
            self.parts(to, settings),
            [self.platforms[known]] * n,
            [self.platforms[to]] * n,
        )

    def every(self, step: int) -> "Recorded":
        """One kernel of so many."""
        return replace(self, at=self.at[::step], latency_s=self.latency_s[::step])

    def learned(self, learner: str, known: Sequence[int]) -> TransferModel:
        """A learner that saw all kernels on some platforms."""
        X, y, tasks = self.rows(known)
        return make_model(learner, self.features.columns).fit(X, y, tasks)

    def rows(self, platforms: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features, latencies and tasks of what was measured on some platforms."""
        at = np.arange(len(self.candidates))[:, None] * len(self.platforms) + np.array(platforms)
        y = self.latency_s[:, list(platforms)].ravel()
        tasks = np.char.add(np.repeat(self.workloads, len(platforms)), "@")
        tasks = np.char.add(tasks, np.tile(np.array(platforms).astype(str), len(self.candidates)))
        ran = np.isfinite(y)
        return self.features.values[at.ravel()][ran], y[ran], tasks[ran]

    def place(self, device: str, sms: int) -> int:
        """Position of the whole device or of a green context on it."""
        return next(
            i
            for i, each in enumerate(self.platforms)
            if each.sms_granted == sms and device in each.device.name
        )


def budgets(name: str, most: int) -> Recorded:
    """Kernels on parts of an H100 and an H200, at most so many a workload; none kept for blind tests."""
    data = drop_final_report(load_dataset(name))
    at = [
        i
        for i, each in enumerate(data.platforms)
        if each.isolation != "mps" and each.sms_granted in SMS and not each.device.name.endswith("CPU")
    ]
    rows = data.rows[data.rows["platform"].isin(at)]
    drawn = rows[["candidate", "workload"]].drop_duplicates().sample(frac=1.0, random_state=0)
    kept = np.sort(drawn.groupby("workload", observed=True).head(most)["candidate"].to_numpy())
    return _recorded(name, data, kept, at)


def caches(folder: Path, most: int) -> Recorded:
    """Configs of one kernel that ran on all GPUs of a suite, at most so many."""
    data = read_kernel(folder)
    at = list(range(len(data.platforms)))
    found = _recorded(name_kernel(folder), data, np.arange(len(data.candidates)), at)
    ran = np.flatnonzero(np.isfinite(found.latency_s).all(axis=1))
    kept = np.sort(np.random.default_rng(0).permutation(ran)[:most])
    return _recorded(found.name, data, kept, at)


def _recorded(name: str, data: Dataset, kept: np.ndarray, at: Sequence[int]) -> Recorded:
    table = data.rows.pivot_table(
        index="candidate", columns="platform", values="latency_s", dropna=False, observed=True
    )
    values = table.reindex(index=kept, columns=list(at)).to_numpy(dtype=np.float64)
    values = np.where(np.isfinite(values), values, np.nan)
    return Recorded(name, data, kept, tuple(data.platforms[i] for i in at), values)
