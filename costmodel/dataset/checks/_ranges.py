"""Values that no device can have, as a wrong unit produces them, and measurements that do not repeat.

No schema library (pandera, dataframely) stands behind this: msgspec checks types and required fields when it
decodes a record, as ``SCHEMA`` does for a file. What is left is one comparison of arrays a quantity, to which
a library would add a second description of the columns and not spare the table of limits.

Notations:
    relative std: of the repeats of a measurement, standard deviation / mean.
    A/A shift: of a kernel that met a platform twice, |second latency / first - 1|, latencies being medians.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.table._columns import lengths_of, reduce_lists
from costmodel.dataset.table._records import Records


class _Values(NamedTuple):
    """Numbers of some records, those of one behind each other: ``(v,)`` values, and the record of each."""

    record: Positions
    values: FloatArray


@dataclass(frozen=True)
class _Quantity:
    """A number of a record and its limits; 0 is in range, as it says that the number is not known.

    Attributes:
        name: Field, with its unit at the end.
        least: Smallest possible value.
        most: Largest possible value.
        unit: What it must be in.
        read: The values that records have.
    """

    name: str
    least: float
    most: float
    unit: str
    read: Callable[[Records], _Values]


def _of_lists(lists: Any) -> _Values:
    return _Values(
        np.repeat(np.arange(len(lists)), lengths_of(lists)), np.asarray(pc.list_flatten(lists), np.float64)
    )


def _latencies(records: Records) -> _Values:
    return _of_lists(records.rows["latencies_s"].combine_chunks())


def _of_device(name: str) -> Callable[[Records], _Values]:
    """Return a figure of each record's device."""

    def read(records: Records) -> _Values:
        figures = np.array([getattr(each.device, name) for each in records.platforms], dtype=np.float64)
        return _Values(np.arange(len(records)), figures[records.platform])

    return read


def _of_state(name: str) -> Callable[[Records], _Values]:
    """Return a figure of the device's state before the repeats, and after them."""

    def read(records: Records) -> _Values:
        both = [pc.struct_field(records.rows[when], name).to_numpy() for when in ("before", "after")]
        return _Values(np.repeat(np.arange(len(records)), 2), np.stack(both, axis=1).ravel())

    return read


def _registers(records: Records) -> _Values:
    lists = records.rows["resources"].combine_chunks()
    registers = pc.struct_field(lists.flatten(), "registers_per_thread")
    return _Values(np.repeat(np.arange(len(lists)), lengths_of(lists)), np.asarray(registers, np.float64))


def _shared_bytes(records: Records) -> _Values:
    lists = records.candidates["launches"].combine_chunks().take(records.rows["candidate"].combine_chunks())
    shared = pc.struct_field(lists.flatten(), "shared_bytes")
    return _Values(np.repeat(np.arange(len(lists)), lengths_of(lists)), np.asarray(shared, np.float64))


# Wide around all GPUs of devices.toml (clocks 1,380 to 2,903 MHz, 224 to 8,000 GB/s, caches 3 to 126 MiB, 64
# to 228 KiB of shared memory an SM) and CPUs, and narrower than a factor of 1,000 beyond them.
_QUANTITIES = (
    _Quantity("latencies_s", 1e-8, 1e4, "seconds", _latencies),
    _Quantity("device.clock_mhz", 100, 1e4, "MHz", _of_device("clock_mhz")),
    _Quantity("device.bandwidth_gb_s", 1, 1e5, "GB/s", _of_device("bandwidth_gb_s")),
    _Quantity("device.l2_bytes", 2**16, 2**32, "bytes", _of_device("l2_bytes")),
    _Quantity("device.shared_bytes_per_sm", 2**13, 2**22, "bytes", _of_device("shared_bytes_per_sm")),
    _Quantity("clock_mhz", 50, 1e4, "MHz", _of_state("clock_mhz")),
    _Quantity("spin_clock_mhz", 50, 1e4, "MHz", _of_state("spin_clock_mhz")),
    _Quantity("memory_clock_mhz", 50, 2e4, "MHz", _of_state("memory_clock_mhz")),
    _Quantity("launch_s", 1e-8, 1e-2, "seconds", _of_state("launch_s")),
    _Quantity("temperature_c", 1, 130, "degrees Celsius", _of_state("temperature_c")),
    _Quantity("power_w", 1, 3e3, "watts", _of_state("power_w")),
    _Quantity("registers_per_thread", 1, 1024, "registers", _registers),
    _Quantity("launches.shared_bytes", 1, 2**22, "bytes", _shared_bytes),
)


@dataclass
class _Tally:
    """The values of one quantity in one file that are out of range."""

    count: int = 0
    least: float = math.inf
    most: float = -math.inf
    examples: list[str] = field(default_factory=list)

    def add(self, held: WorkloadRecords, wrong: _Values) -> None:
        """Count values of the records of a file."""
        records, first = np.unique(wrong.record, return_index=True)
        self.count += records.size
        self.least = float(np.fmin(self.least, np.fmin.reduce(wrong.values)))
        self.most = float(np.fmax(self.most, np.fmax.reduce(wrong.values)))
        for record, value in zip(records, wrong.values[first], strict=True):
            if len(self.examples) == MOST_EXAMPLES:
                return
            platform = held.records.platforms[held.records.platform[record]].name
            self.examples.append(f"{held.workload.name} on {platform}: {value:g}")


class RangeTallies:
    """Counts quantities out of range, by file."""

    def __init__(self) -> None:
        self._records = Counter[str]()
        self._tallies: dict[tuple[str, _Quantity], _Tally] = {}

    def add(self, held: WorkloadRecords) -> None:
        """Count those of a workload."""
        counts = np.bincount(held.file, minlength=len(held.files))
        self._records.update(dict(zip(held.files, counts.tolist(), strict=True)))
        for quantity in _QUANTITIES:
            wrong = _out_of_range(quantity, held.records)
            for file in np.unique(held.file[wrong.record]):
                of_file = held.file[wrong.record] == file
                tally = self._tallies.setdefault((held.files[file], quantity), _Tally())
                tally.add(held, _Values(wrong.record[of_file], wrong.values[of_file]))

    def findings(self) -> Iterator[Finding]:
        """One finding a quantity and file."""
        for (file, quantity), tally in self._tallies.items():
            yield _finding(file, quantity, tally, self._records[file])


def _out_of_range(quantity: _Quantity, records: Records) -> _Values:
    """Return the values of records that are out of range; NaN is."""
    record, values = quantity.read(records)
    wrong = (values != 0) & ~((quantity.least <= values) & (values <= quantity.most))
    return _Values(record[wrong], values[wrong])


def _finding(file: str, quantity: _Quantity, tally: _Tally, all_: int) -> Finding:
    return Finding(
        kind="range",
        severity=Severity.ERROR,
        concerns=f"{file}: {quantity.name}",
        count=tally.count,
        message=f"{quantity.name} must be in {quantity.unit}, {quantity.least:g} to {quantity.most:g}, or 0 "
        f"where not known, but {tally.count:,} of {all_:,} records have {tally.least:g} to {tally.most:g}: "
        "check the unit that it was written in.",
        examples=pick_examples(tally.examples),
    )


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
