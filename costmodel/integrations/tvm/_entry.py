"""What the database keeps of a program and of a measurement."""

import json
from typing import Any

import msgspec

from costmodel.integrations.tvm._results import latency_of
from costmodel.records._platform import Device, Isolation, Platform


class ProgramEntry(msgspec.Struct, frozen=True, tag="program", forbid_unknown_fields=True):
    """A program that is tuned.

    Attributes:
        key: Its structural hash.
        fields: What MetaSchedule's JSON database keeps of it.
    """

    key: str
    fields: list[Any]


class DeviceEntry(msgspec.Struct, frozen=True, tag="device", forbid_unknown_fields=True):
    """A device that measured, for who makes a dataset of the database.

    Attributes:
        device: The device.
    """

    device: Device


class MeasuredEntry(msgspec.Struct, frozen=True, tag="measured", forbid_unknown_fields=True, dict=True):
    """A measurement, or a failure.

    Attributes:
        program: Key of the program.
        target: Canonical JSON of the target, without its host.
        device: Name of the device.
        isolation: How SMs were set apart.
        sms_requested: SMs asked for.
        sms_granted: SMs that the driver gave.
        latencies_s: Seconds of each repeat; empty for one that failed.
        trace: The schedule, as MetaSchedule's JSON database keeps it.
        full_target: Canonical JSON of the target.
        arguments: Shapes and dtypes, as MetaSchedule's JSON database keeps them.
        measured_at: UTC time, ISO 8601.
    """

    program: str
    target: str
    device: str
    isolation: Isolation
    sms_requested: int
    sms_granted: int
    latencies_s: tuple[float, ...]
    trace: list[Any]
    full_target: str
    arguments: list[Any]
    measured_at: str

    @property
    def latency_s(self) -> float:
        """Median of the repeats in seconds, as in MetaSchedule's table of tasks; inf for one that failed.

        MetaSchedule's own database ranks by the mean, which one disturbed repeat may decide.
        """
        return latency_of(self.latencies_s)

    def is_on(self, platform: Platform) -> bool:
        """Whether it was made on the device, SMs and isolation of a platform."""
        return (self.device, self.isolation, self.sms_granted) == (
            platform.device.name,
            platform.isolation,
            platform.sms_granted,
        )

    @property
    def fields(self) -> list[Any]:
        """What ``ms.database.TuningRecord.from_json`` takes."""
        run_secs = list(self.latencies_s) or None
        return [self.trace, run_secs, json.loads(self.full_target), self.arguments]


Entry = ProgramEntry | DeviceEntry | MeasuredEntry
encode_entry = msgspec.json.Encoder().encode
decode_entry: Any = msgspec.json.Decoder(Entry).decode
