"""A field that is added to a record must not be lost on its way to a dataset."""

import msgspec
import pytest
from fake_records import STATE, fake_measurement

from costmodel.dataset.table._records import Records
from costmodel.dataset.table._schema import DATA_SCHEMA, SCHEMA
from costmodel.records import Candidate, Config, Device, Measurement, Platform, Workload
from costmodel.records._candidate import DATA_FACTS, KernelLaunch
from costmodel.records._measurement import DeviceState, KernelResources

pytestmark = pytest.mark.white_box


def names(struct: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(struct)}


def test_every_field_of_a_record_has_a_column() -> None:
    assert names(KernelResources) == {field.name for field in SCHEMA.field("resources").type.value_type}
    assert names(DeviceState) == {field.name for field in SCHEMA.field("before").type}
    assert names(Device) == {field.name for field in SCHEMA.field("device").type}
    assert names(KernelLaunch) == {field.name for field in DATA_SCHEMA.field("launches").type.value_type}
    plain = {field.name for field in SCHEMA.field("launches").type.value_type}
    assert names(KernelLaunch) - plain == set(DATA_FACTS)
    assert names(Measurement) - {"candidate", "platform"} <= set(SCHEMA.names)
    assert names(Candidate) - {"workload", "config"} <= set(SCHEMA.names)
    assert names(Workload) | names(Platform) <= set(SCHEMA.names)
    assert names(Config) == {"decisions"}


def test_each_column_holds_what_was_recorded() -> None:
    record = msgspec.structs.replace(fake_measurement(), co_runners=("a", "b"))
    (row,) = Records.of([record]).table().to_pylist()
    nested = {"candidate", "platform", "latencies_s", "co_runners", "before", "after", "resources"}
    for name in names(Measurement) - nested:
        assert row[name] == getattr(record, name)
    assert (row["latencies_s"], row["co_runners"]) == (list(record.latencies_s), ["a", "b"])
    assert [msgspec.convert(row[when], DeviceState) for when in ("before", "after")] == [STATE, STATE]
    assert row["resources"] == [msgspec.structs.asdict(kernel) for kernel in record.resources]
    assert len(record.resources) == 1
    assert row["device"] == msgspec.structs.asdict(record.platform.device)
    assert row["launches"] == [msgspec.to_builtins(launch) for launch in record.candidate.launches]
    assert Config(msgspec.json.decode(row["config"])) == Config(
        {"tile": 1, "factors": [1, 4], "order": "row", "share": 0.5}
    )
    assert row["workload"] == record.candidate.workload.name
