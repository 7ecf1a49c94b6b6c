"""Numbers that no device can have, as a wrong unit makes them.

No schema library (pandera, dataframely) stands behind this: msgspec checks types and required fields when it
decodes a record, as ``SCHEMA`` does for a file. What is left is one comparison a quantity, to which a library
would add a second description of the columns and not spare the table of limits.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from costmodel.dataset.checks._finding import MOST_EXAMPLES, Finding, Severity, some
from costmodel.records import Measurement


@dataclass(frozen=True)
class _Quantity:
    """A number of a record and its limits; 0 is in range, as it says that the number is not known.

    Attributes:
        name: Field, with its unit at the end.
        least: Smallest possible value.
        most: Largest possible value.
        unit: What it must be in.
        read: The values in a record.
    """

    name: str
    least: float
    most: float
    unit: str
    read: Callable[[Measurement], tuple[float, ...]]


# Wide around all GPUs of devices.toml (clocks 1,380 to 2,903 MHz, 224 to 8,000 GB/s, caches 3 to 126 MiB, 64
# to 228 KiB of shared memory an SM) and CPUs, and narrower than a factor of 1,000 beyond them.
_QUANTITIES = (
    _Quantity("latencies_s", 1e-8, 1e4, "seconds", lambda m: m.latencies_s),
    _Quantity("device.clock_mhz", 100, 1e4, "MHz", lambda m: (m.platform.device.clock_mhz,)),
    _Quantity("device.bandwidth_gb_s", 1, 1e5, "GB/s", lambda m: (m.platform.device.bandwidth_gb_s,)),
    _Quantity("device.l2_bytes", 2**16, 2**32, "bytes", lambda m: (m.platform.device.l2_bytes,)),
    _Quantity(
        "device.shared_bytes_per_sm",
        2**13,
        2**22,
        "bytes",
        lambda m: (m.platform.device.shared_bytes_per_sm,),
    ),
    _Quantity("clock_mhz", 50, 1e4, "MHz", lambda m: (m.before.clock_mhz, m.after.clock_mhz)),
    _Quantity("spin_clock_mhz", 50, 1e4, "MHz", lambda m: (m.before.spin_clock_mhz, m.after.spin_clock_mhz)),
    _Quantity(
        "memory_clock_mhz", 50, 2e4, "MHz", lambda m: (m.before.memory_clock_mhz, m.after.memory_clock_mhz)
    ),
    _Quantity("launch_s", 1e-8, 1e-2, "seconds", lambda m: (m.before.launch_s, m.after.launch_s)),
    _Quantity(
        "temperature_c", 1, 130, "degrees Celsius", lambda m: (m.before.temperature_c, m.after.temperature_c)
    ),
    _Quantity("power_w", 1, 3e3, "watts", lambda m: (m.before.power_w, m.after.power_w)),
    _Quantity(
        "registers_per_thread",
        1,
        1024,
        "registers",
        lambda m: tuple(k.registers_per_thread for k in m.resources),
    ),
    _Quantity(
        "launches.shared_bytes",
        1,
        2**22,
        "bytes",
        lambda m: tuple(k.shared_bytes for k in m.candidate.launches),
    ),
)


@dataclass
class _Tally:
    """The values of one quantity in one file that are out of range."""

    count: int = 0
    least: float = math.inf
    most: float = -math.inf
    examples: list[str] = field(default_factory=list)

    def add(self, values: tuple[float, ...], record: Measurement) -> None:
        self.count += 1
        self.least, self.most = min(self.least, *values), max(self.most, *values)
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(f"{record.candidate.workload.name} on {record.platform.name}: {values[0]:g}")


class RangeTallies:
    """Counts quantities out of range, by file."""

    def __init__(self) -> None:
        self._records = Counter[str]()
        self._tallies: dict[tuple[str, _Quantity], _Tally] = {}

    def add(self, file: str, records: Sequence[Measurement]) -> None:
        """Count those of some records of a file."""
        self._records[file] += len(records)
        for quantity in _QUANTITIES:
            for record in records:
                if values := _out_of_range(quantity, record):
                    self._tallies.setdefault((file, quantity), _Tally()).add(values, record)

    def findings(self) -> Iterator[Finding]:
        """One finding a quantity and file."""
        for (file, quantity), tally in self._tallies.items():
            yield _finding(file, quantity, tally, self._records[file])


def _out_of_range(quantity: _Quantity, record: Measurement) -> tuple[float, ...]:
    """The values of a record that are out of range; NaN is."""
    values = quantity.read(record)
    return tuple(v for v in values if v != 0 and not quantity.least <= v <= quantity.most)


def _finding(file: str, quantity: _Quantity, tally: _Tally, all_: int) -> Finding:
    return Finding(
        kind="range",
        severity=Severity.ERROR,
        concerns=f"{file}: {quantity.name}",
        count=tally.count,
        message=f"{quantity.name} must be in {quantity.unit}, {quantity.least:g} to {quantity.most:g}, or 0 "
        f"where not known, but {tally.count:,} of {all_:,} records have {tally.least:g} to {tally.most:g}: "
        "check the unit that it was written in.",
        examples=some(tally.examples),
    )
