"""Values that no device can have, as a wrong unit produces them.

No schema library (pandera, dataframely) stands behind this: msgspec checks types and required fields when it
decodes a record, as ``SCHEMA`` does for a file. What is left is one comparison of arrays a quantity, to which
a library would add a second description of the columns and not spare the table of limits.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset.checks._check import MOST_EXAMPLES, Finding, Severity, WorkloadRecords, pick_examples
from costmodel.dataset.table._columns import lengths_of
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
