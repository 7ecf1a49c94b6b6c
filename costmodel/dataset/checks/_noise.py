"""Measurements that do not repeat: within one measurement, or when a kernel is measured again.

Notations:
    relative std: of the repeats of a measurement, standard deviation / mean.
    A/A shift: of a kernel that met a platform twice, |second latency / first - 1|, latencies being medians.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.table._columns import reduce_lists

# The median A/A shift is .0009 to .0064 on the 40 platforms of this project's datasets: some eight times that
# of the noisiest. It is also what two files of one device may differ by.
WIDEST_SHIFT = 0.05
_LEAST_PAIRS = 5
# The relative std of nine in ten measurements is .008 at most on each platform of this project's datasets,
# and .077 in 14 of 15 public caches of Kernel Tuner. In the last, of an AMD Radeon PRO W6600, it is .36.
_WIDEST_STD = 0.1
_SHARE = 0.9


@dataclass
class _Spread:
    """The relative stds of a file on a device, and names of the widest."""

    stds: list[FloatArray] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)


class NoiseTallies:
    """Gathers noise, one workload after the other."""

    def __init__(self) -> None:
        self._spreads: dict[tuple[str, str], _Spread] = {}
        self._shifts: dict[tuple[str, str], list[FloatArray]] = {}

    def add(self, held: WorkloadRecords) -> None:
        """Take in the records of a workload."""
        working = held.working
        lists = held.records.rows["latencies_s"].take(working.index.to_numpy())
        stds = reduce_lists(lists, _relative_std)
        for (file, device), rows in working.assign(std=stds).groupby(["file", "device"]):
            spread = self._spreads.setdefault((str(file), str(device)), _Spread())
            spread.stds.append(rows["std"].dropna().to_numpy())
            noisy = rows[rows["std"] > _WIDEST_STD].head(MOST_EXAMPLES)
            spread.examples += [f"{held.workload.name} on {platform}" for platform in noisy["platform"]]
        if (working["visit"] == 1).any():
            self._add_shifts(working)

    def _add_shifts(self, working: pd.DataFrame) -> None:
        for (file, platform), rows in working.groupby(["file", "platform"]):
            medians = rows.groupby(["candidate", "visit"])["latency_s"].median().unstack()
            pairs = medians.reindex(columns=[0, 1]).dropna()
            shifts = (pairs[1] / pairs[0] - 1).abs().to_numpy()
            self._shifts.setdefault((str(file), str(platform)), []).append(shifts)

    def findings(self) -> Iterator[Finding]:
        """One finding for each file and device, or platform, that is too noisy."""
        for (file, device), spread in self._spreads.items():
            yield from _spread_finding(f"{file}: {device}", np.concatenate(spread.stds), spread.examples)
        for (file, platform), shifts in self._shifts.items():
            yield from _shift_finding(f"{file}: {platform}", np.concatenate(shifts))


def _relative_std(latencies_s: FloatArray) -> FloatArray:
    """Return ``(k,)`` of ``(k, repeats)``; NaN where there is one repeat."""
    if latencies_s.shape[1] == 1:
        return np.full(len(latencies_s), np.nan)
    std: FloatArray = np.std(latencies_s, axis=1, ddof=1) / np.mean(latencies_s, axis=1)
    return std


def _spread_finding(concerns: str, stds: FloatArray, examples: list[str]) -> Iterator[Finding]:
    noisy = stds[stds > _WIDEST_STD]
    if noisy.size > (1 - _SHARE) * stds.size:
        yield _warning(
            concerns,
            noisy.size,
            f"The repeats of {_SHARE:.0%} of the measurements must be within a relative std of "
            f"{_WIDEST_STD:g}, but those of {noisy.size:,} of {stds.size:,} are not (median "
            f"{np.median(noisy):.2g}). Measure on a device that runs nothing else, at a steady clock.",
            examples,
        )


def _shift_finding(concerns: str, shifts: FloatArray) -> Iterator[Finding]:
    if shifts.size >= _LEAST_PAIRS and np.median(shifts) > WIDEST_SHIFT:
        yield _warning(
            concerns,
            shifts.size,
            f"A kernel that is measured again must repeat its latency within {WIDEST_SHIFT:.0%} (median A/A "
            f"shift), but the {shifts.size:,} kernels measured again differ by {np.median(shifts):.0%}, and "
            f"90% of them by up to {np.quantile(shifts, 0.9):.0%}. Rankings learned from these data are "
            "noise. Measure again on a device that runs nothing else, at a steady clock.",
            [],
        )


def _warning(concerns: str, count: int, message: str, examples: list[str]) -> Finding:
    return Finding("noise", Severity.WARNING, concerns, count, message, pick_examples(examples))
