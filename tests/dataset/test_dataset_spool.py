"""Measurements that wait on disk come back as they were."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from fake_records import WORKLOADS, fake_measurement

from costmodel.dataset import CardHeader, build_dataset
from costmodel.dataset.sources._source import RecordSpool
from costmodel.dataset.table._records import Records
from costmodel.records import Config, Measurement, RecordStore
from costmodel.records._measurement import DeviceState

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace


def filled(records: list[Measurement], most_in_memory: int) -> RecordSpool:
    spool = RecordSpool(most_in_memory)
    for record in records:
        spool.append(Records.of([record]))
    return spool


def write_store(path: Path, records: list[Measurement]) -> Path:
    with RecordStore(path) as store:
        store.append(records)
    return path


@pytest.mark.parametrize("most", [1, 3, 100])
def test_records_come_back_by_workload_in_their_order(most: int) -> None:
    records = [fake_measurement(WORKLOADS[i % 2], tile=2**i) for i in range(8)]
    spool = filled(records, most)
    assert len(spool) == 8
    assert spool.workloads == set(WORKLOADS[:2])
    for position, name in enumerate(WORKLOADS[:2]):
        assert list(spool.of(name).measurements()) == records[position::2]
    assert sorted(spool, key=records.index) == records
    assert records[5] in spool
    assert fake_measurement(tile=512) not in spool
    assert len(spool.of("softmax-m7-n7")) == 0


@pytest.mark.parametrize("most", [2, 100])
def test_what_a_format_cannot_hold_is_kept(most: int) -> None:
    one = fake_measurement()
    huge = replace(one, candidate=replace(one.candidate, config=Config({"x": 2**70})))
    hot = replace(one, before=DeviceState(temperature_c=float("nan")))
    back = list(filled([huge, hot, one], most))
    assert huge in back
    assert one in back
    assert sum(m.before.temperature_c != m.before.temperature_c for m in back) == 1


def test_a_closed_spool_is_empty() -> None:
    spool = filled([fake_measurement()], 1)
    spool.close()
    assert not spool
    spool.append(Records.of([fake_measurement(tile=2)]))
    assert list(spool) == [fake_measurement(tile=2)]


def test_a_build_from_disk_gives_the_same_bytes(
    tmp_path: Path, header: CardHeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file of more records than stay in memory, or two of fewer."""
    most = 32
    monkeypatch.setattr("costmodel.dataset.sources._source.RecordSpool", partial(RecordSpool, most))
    records = [replace(fake_measurement(tile=tile), measured_at="") for tile in range(1, most + 3)]
    cut = most // 2
    one = [write_store(tmp_path / "one.jsonl", records)]
    two = [
        write_store(tmp_path / f"{i}.jsonl", part) for i, part in enumerate((records[:cut], records[cut:]))
    ]
    from_disk, from_memory = (
        build_dataset(files, tmp_path / "out" / files[0].stem, header=header) for files in (one, two)
    )
    assert from_disk.measurements == len(records)
    assert from_disk.sha256 == from_memory.sha256
