"""Measurements that wait on disk come back as they were."""

from pathlib import Path

import msgspec
import pytest
from fake_records import WORKLOADS, fake_measurement

from costmodel.dataset import CardHeader, _spool, build_dataset
from costmodel.dataset._spool import RecordSpool
from costmodel.records import Config, DeviceState, Measurement

replace = msgspec.structs.replace


def filled(records: list[Measurement]) -> RecordSpool:
    spool = RecordSpool()
    for record in records:
        spool.append(record)
    return spool


@pytest.mark.parametrize("most", [1, 3, 100])
def test_records_come_back_by_workload_in_their_order(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(_spool, "_MOST_IN_MEMORY", most)
    records = [fake_measurement(WORKLOADS[i % 2], tile=2**i) for i in range(8)]
    spool = filled(records)
    assert len(spool) == 8
    assert spool.workloads == set(WORKLOADS[:2])
    for position, name in enumerate(WORKLOADS[:2]):
        assert list(spool.of(name)) == records[position::2]
    assert sorted(spool, key=records.index) == records
    assert records[5] in spool
    assert fake_measurement(tile=512) not in spool
    assert list(spool.of("softmax-m7-n7")) == []


@pytest.mark.parametrize("most", [2, 100])
def test_what_a_format_cannot_hold_is_kept(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(_spool, "_MOST_IN_MEMORY", most)
    one = fake_measurement()
    huge = replace(one, candidate=replace(one.candidate, config=Config({"x": 2**70})))
    hot = replace(one, before=DeviceState(temperature_c=float("nan")))
    back = list(filled([huge, hot, one]))
    assert huge in back
    assert one in back
    assert sum(m.before.temperature_c != m.before.temperature_c for m in back) == 1


def test_a_closed_spool_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spool, "_MOST_IN_MEMORY", 1)
    spool = filled([fake_measurement()])
    spool.close()
    assert not spool
    spool.append(fake_measurement(tile=2))
    assert list(spool) == [fake_measurement(tile=2)]


def test_a_build_from_disk_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Path, header: CardHeader
) -> None:
    in_memory = build_dataset([store], tmp_path / "memory", header=header)
    monkeypatch.setattr(_spool, "_MOST_IN_MEMORY", 5)
    assert build_dataset([store], tmp_path / "disk", header=header).sha256 == in_memory.sha256
