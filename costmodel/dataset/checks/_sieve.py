"""Which records enter a dataset, and why the others do not."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, total_ordering
from typing import Any

import msgspec

from costmodel.dataset.importers import Reject
from costmodel.dataset.table import Dataset, to_dataset, to_table
from costmodel.records import Candidate, Device, KernelLaunch, Measurement, Outcome

SAME_KEY = "another measurement has the same candidate, platform and visit"


@dataclass(frozen=True)
class Validation:
    """Records, sorted out.

    Attributes:
        accepted: One measurement a key, by workload, candidate, platform, visit and company. Each carries the
            launches that any record of its candidate knows.
        rejects: The others, in the same order.
        duplicates: How many records were dropped because an equal one is there.
    """

    accepted: tuple[Measurement, ...]
    rejects: tuple[Reject, ...]
    duplicates: int

    @cached_property
    def table(self) -> Any:
        """The ``pyarrow.Table`` of what enters."""
        return to_table(self.accepted)

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset of what enters."""
        return to_dataset(self.table)


class Sieve:
    """Sorts out records, those of one workload after the other.

    The result does not depend on the order of the records, as long as workloads come in the order of their
    names: what devices are is remembered from one to the next.
    """

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}

    def sift(self, records: Iterable[Measurement]) -> Validation:
        """Sort out all records of some workloads.

        Of several different measurements of one key the earliest stays.
        """
        pass_ = _Pass(self._devices)
        for record in sorted(records, key=_order):
            pass_.admit(record)
        accepted = tuple(pass_.with_launches(measurement) for measurement in pass_.accepted.values())
        return Validation(accepted, tuple(pass_.rejects), pass_.duplicates)


@dataclass
class _Pass:
    """Admits records one by one and remembers what they must agree with."""

    devices: dict[str, Device]
    accepted: dict[str, Measurement] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    duplicates: int = 0
    launches: dict[str, tuple[KernelLaunch, ...]] = field(default_factory=dict)

    def admit(self, record: Measurement) -> None:
        key = record.key
        if self.accepted.get(key) == record:
            self.duplicates += 1
        elif reason := _fault(record) or self._contradiction(key, record):
            self.rejects.append(Reject(reason, record))
        else:
            self.accepted[key] = record

    def _contradiction(self, key: str, record: Measurement) -> str:
        """How the record contradicts those before it; empty if it does not."""
        device, candidate = record.platform.device, record.candidate
        if self.devices.setdefault(device.name, device) != device:
            return f"device {device.name} is described in two ways"
        if candidate.launches and self._known_launches(candidate) != candidate.launches:
            return "launches differ from those of another record of the same candidate"
        return SAME_KEY if key in self.accepted else ""

    def _known_launches(self, candidate: Candidate) -> tuple[KernelLaunch, ...]:
        return self.launches.setdefault(candidate.candidate_id, candidate.launches)

    def with_launches(self, measurement: Measurement) -> Measurement:
        candidate = measurement.candidate
        launches = self.launches.get(candidate.candidate_id, ())
        if launches == candidate.launches:
            return measurement
        return msgspec.structs.replace(
            measurement, candidate=msgspec.structs.replace(candidate, launches=launches)
        )


def _fault(record: Measurement) -> str:
    """What is wrong with a record in itself; empty if nothing is."""
    platform = record.platform
    # A whole device whose SMs are unknown has 0 of 0.
    least = min(1, platform.device.sms)
    if not least <= platform.sms_granted <= platform.device.sms:
        return f"sms_granted must be in {least}..{platform.device.sms}, but got {platform.sms_granted}"
    if record.outcome is Outcome.OK and record.runs_per_repeat < 1:
        return f"runs_per_repeat must be at least 1 when ok, but got {record.runs_per_repeat}"
    if record.visit not in (0, 1):
        return f"visit must be 0 or 1, but got {record.visit}"
    if not _is_utc_or_unknown(record.measured_at):
        return f"measured_at must be a UTC time in ISO 8601, but got {record.measured_at!r}"
    return ""


def _is_utc_or_unknown(text: str) -> bool:
    if not text:
        return True
    try:
        return datetime.fromisoformat(text).utcoffset() == timedelta(0)
    except ValueError:
        return False


def _order(record: Measurement) -> tuple[Any, ...]:
    """By workload, candidate, platform and visit, then the earliest; the bytes decide the rest."""
    candidate, platform = record.candidate, record.platform
    return (
        candidate.workload.name,
        candidate.candidate_id,
        platform.device.name,
        platform.isolation,
        platform.sms_granted,
        record.visit,
        bool(record.co_runners),
        record.measured_at,
        _Content(record),
    )


@total_ordering
@dataclass(frozen=True)
class _Content:
    """Orders records by their bytes, which are needed where all else is equal."""

    record: Measurement

    def __lt__(self, other: "_Content") -> bool:
        return msgspec.json.encode(self.record) < msgspec.json.encode(other.record)
