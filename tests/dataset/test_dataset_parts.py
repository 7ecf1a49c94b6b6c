"""Datasets in parts: as one file, but for what is read of them and how they grow."""

import hashlib
import random
import shutil
import time
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow.dataset
import pytest
from append_to_dataset import append_until_killed
from fake_records import DEVICE, WORKLOADS, fake_measurement, fake_measurements
from filelock import FileLock
from fresh_processes import Pipe, Process

from costmodel.dataset import (
    CardHeader,
    append_dataset,
    build_dataset,
    diff_datasets,
    export_dataset,
    find_dataset,
    load_dataset,
    make_split,
    merge_datasets,
    read_split,
    write_split,
)
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.dataset.table._files import PARTITIONS, Partition, hash_dataset
from costmodel.dataset.table._read import iter_datasets, workloads_in
from costmodel.dataset.table._records import LATENCIES
from costmodel.errors import CostModelError
from costmodel.records import Device, Measurement, RecordStore

pytestmark = pytest.mark.white_box

OTHER = msgspec.structs.replace(DEVICE, name="Tesla T4/2")  # a slash, which no folder's name may have
KILLS = 5


def on(device: Device, measurement: Measurement) -> Measurement:
    platform = msgspec.structs.replace(measurement.platform, device=device)
    return msgspec.structs.replace(measurement, platform=platform)


def stored(path: Path, records: list[Measurement]) -> Path:
    with RecordStore(path) as store:
        store.append(records)
    return path


def everything() -> list[Measurement]:
    """Three workloads on two devices, the second of which measured two of them."""
    own = list(fake_measurements())
    return own + [on(OTHER, m) for m in own if m.candidate.workload.name != WORKLOADS[2]]


def contents(folder: Path) -> dict[str, bytes]:
    """What a dataset's folder holds, but for the lock of who appends."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != ".append.lock")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def parquet(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if name.endswith(".parquet")}


def check_checksums(folder: Path) -> None:
    """Each file has its line, but for what was rejected."""
    every = contents(folder)
    lines = every.pop("SHA256SUMS").decode().splitlines()
    named = sorted(name for name in every if not name.startswith("rejects"))
    assert lines == [f"{hashlib.sha256(every[name]).hexdigest()}  {name}" for name in named]


HEADER = CardHeader("Fake kernels", "For tests.", "Not at all.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one file."""
    folder = tmp_path_factory.mktemp("single")
    return build_dataset([stored(folder / "a.jsonl", everything())], folder / "single", header=HEADER).path


@pytest.fixture(scope="module")
def by_device(single: Path) -> Path:
    """In parts, by device."""
    return merge_datasets([single], single.parent / "parts", header=HEADER, partition_by="device").path


@pytest.fixture
def parts(by_device: Path, tmp_path: Path) -> Path:
    """A copy that can be changed."""
    return shutil.copytree(by_device, tmp_path / "parts")


@pytest.mark.parametrize("by", PARTITIONS)
def test_parts_hold_what_one_file_holds_in_its_order(single: Path, tmp_path: Path, by: Partition) -> None:
    out = merge_datasets([single], tmp_path / "out", header=HEADER, partition_by=by).path
    one, several = load_dataset(single), load_dataset(out)
    assert several.to_measurements() == one.to_measurements()
    pd.testing.assert_frame_equal(several.rows, one.rows)
    latencies = load_dataset(out, facts=LATENCIES)
    pd.testing.assert_frame_equal(latencies.rows, one.rows)
    assert "measured_at" in several.measurements
    assert "measured_at" not in latencies.measurements
    assert [part.workloads for part in iter_datasets(out)] == [
        part.workloads for part in iter_datasets(single)
    ]
    assert diff_datasets(single, out).is_empty
    assert workloads_in(out) == one.workloads
    export_dataset(out, tmp_path / "back.parquet", "parquet")
    assert (tmp_path / "back.parquet").read_bytes() == (single / "measurements.parquet").read_bytes()


def test_each_device_or_workload_has_a_folder(parts: Path, tmp_path: Path) -> None:
    assert parquet(parts).keys() == {
        "measurements/device_name=Test%20GPU/part-0.parquet",
        "measurements/device_name=Tesla%20T4%2F2/part-0.parquet",
    }
    by_workload = merge_datasets([parts], tmp_path / "out", header=HEADER, partition_by="workload").path
    assert parquet(by_workload).keys() == {
        f"measurements/workload_name={name}/part-0.parquet" for name in WORKLOADS
    }


def test_same_records_same_bytes(parts: Path, tmp_path: Path) -> None:
    file = stored(tmp_path / "backwards.jsonl", everything()[::-1])
    again = build_dataset([file], tmp_path / "again", header=HEADER, partition_by="device").path
    assert contents(again) == contents(parts)


def test_others_read_them_as_a_partitioned_dataset(parts: Path) -> None:
    frame = pd.read_parquet(parts / "measurements")
    assert len(frame) == len(everything())
    assert (frame["device_name"].astype(str) == [device["name"] for device in frame["device"]]).all()
    table = pyarrow.dataset.dataset(parts / "measurements", partitioning="hive")
    assert table.count_rows(filter=pyarrow.dataset.field("device_name") == OTHER.name) == 56


def test_checksums_name_every_file(parts: Path) -> None:
    check_checksums(parts)
    lines = (parts / "SHA256SUMS").read_text().splitlines(keepends=True)
    own = "".join(line for line in lines if "measurements/" in line)
    assert hash_dataset(parts) == hashlib.sha256(own.encode()).hexdigest() == load_dataset(parts).sha256
    assert load_dataset(parts).name == "parts"


def test_only_the_parts_that_are_needed_are_read(parts: Path) -> None:
    damaged = parts / "measurements/device_name=Tesla%20T4%2F2/part-0.parquet"
    damaged.write_bytes(b"no parquet")
    found = load_dataset(parts, devices=[DEVICE.name])
    assert found.to_measurements() == load_dataset(parts, devices={DEVICE.name, "Nobody's"}).to_measurements()
    assert len(found.measurements) == 84
    with pytest.raises(CostModelError, match="must match its checksum"):
        load_dataset(parts)


def test_only_the_groups_of_rows_that_are_needed_are_read(tmp_path: Path) -> None:
    every = load_dataset("sm-budgets")
    name = every.workloads[0]
    data = bytearray((find_dataset("sm-budgets") / "measurements.parquet").read_bytes())
    data[len(data) * 3 // 4] ^= 1
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data)
    some = load_dataset(damaged, workloads=[name], devices=["NVIDIA H200"])
    expected = [m for m in every.to_measurements(name) if m.platform.device.name == "NVIDIA H200"]
    assert some.to_measurements() == expected
    with pytest.raises(CostModelError, match="is damaged or in another format"):
        load_dataset(damaged)


def test_a_workload_or_device_that_is_not_there(parts: Path) -> None:
    said = r"of the 3 of parts, but got 'softmax-m512-n51'\. Did you mean 'softmax-m512-n512'"
    with pytest.raises(CostModelError, match=said):
        load_dataset(parts, workloads=["softmax-m512-n51"])
    with pytest.raises(CostModelError, match=r"these workloads on Tesla T4/2, but has none"):
        load_dataset(parts, workloads=[WORKLOADS[2]], devices=[OTHER.name])


def test_a_split_is_of_all_parts(parts: Path, single: Path) -> None:
    recipe = SplitRecipe("random")
    dataset, one = load_dataset(parts), load_dataset(single)
    write_split(dataset, make_split(dataset, recipe, "fifth"))
    split, expected = read_split(dataset, "fifth"), make_split(one, recipe)
    assert split.folds[0].test.tolist() == expected.folds[0].test.tolist()


def test_another_layout_replaces_the_first(parts: Path, tmp_path: Path, store: Path) -> None:
    build_dataset([store], parts, header=HEADER, force=True, partition_by="workload")
    assert len(load_dataset(parts).measurements) == 84
    assert not list(parts.glob("measurements/device_name=*/*"))
    build_dataset([store], parts, header=HEADER, force=True)
    assert len(load_dataset(parts).measurements) == 84
    assert parquet(parts).keys() == {"measurements.parquet"}
    build_dataset([store], parts, header=HEADER, force=True, partition_by="device")
    assert len(load_dataset(parts).measurements) == 84
    assert not (parts / "measurements.parquet").exists()


@pytest.mark.parametrize("by", PARTITIONS)
def test_what_is_appended_is_as_if_it_had_been_built(single: Path, tmp_path: Path, by: Partition) -> None:
    every = everything()
    random.Random(0).shuffle(every)
    first, second = stored(tmp_path / "a.jsonl", every[:90]), stored(tmp_path / "b.jsonl", every[80:])
    out = build_dataset([first], tmp_path / "out", header=HEADER, partition_by=by).path
    before = parquet(out)
    report = append_dataset(out, [second])
    assert (report.records, report.measurements, report.duplicates) == (60, 50, 10)
    assert report.sha256 == hash_dataset(out)
    assert load_dataset(out).to_measurements() == load_dataset(single).to_measurements()
    assert before.items() < parquet(out).items()
    assert "| measurements | 140 |" in (out / "README.md").read_text()
    check_checksums(out)


def test_the_same_campaign_gives_the_same_bytes(parts: Path, tmp_path: Path) -> None:
    campaign = [fake_measurement(name, sms=16) for name in WORKLOADS]
    other = shutil.copytree(parts, tmp_path / "other")
    append_dataset(parts, [stored(tmp_path / "a.jsonl", campaign)])
    append_dataset(other, [stored(tmp_path / "b.jsonl", campaign[::-1])])
    assert contents(parts) == contents(other)


def test_what_is_there_already_adds_nothing(parts: Path, tmp_path: Path) -> None:
    before = contents(parts)
    report = append_dataset(parts, [stored(tmp_path / "a.jsonl", everything()[:20])])
    assert (report.measurements, report.duplicates) == (0, 20)
    assert contents(parts) == before


def test_what_contradicts_the_dataset_does_not_enter(parts: Path, tmp_path: Path) -> None:
    """Also where it is older, or tells of the device in a workload that the dataset does not have."""
    there = fake_measurement(WORKLOADS[0], 1)
    older = msgspec.structs.replace(there, latencies_s=(1.0,), measured_at="2020-01-01T00:00:00+00:00")
    new = "batch_matmul-b12-m128-n128-k64"  # which is judged first
    described = on(msgspec.structs.replace(DEVICE, sms=133), fake_measurement(new, 1))
    launches = (msgspec.structs.replace(there.candidate.launches[0], blocks=7),)
    relaunched = msgspec.structs.replace(
        fake_measurement(WORKLOADS[0], 2, sms=16),
        candidate=msgspec.structs.replace(fake_measurement(WORKLOADS[0], 2).candidate, launches=launches),
    )
    unknown = msgspec.structs.replace(
        fake_measurement(WORKLOADS[0], 4, sms=16),
        candidate=msgspec.structs.replace(fake_measurement(WORKLOADS[0], 4).candidate, launches=()),
    )
    report = append_dataset(parts, [stored(tmp_path / "a.jsonl", [older, described, relaunched, unknown])])
    assert report.rejects == {
        "another measurement has the same candidate, platform and visit": 1,
        "launches differ from those of another record of the same candidate": 1,
        "device Test GPU is described in two ways": 1,
    }
    assert len((parts / "rejects-1.jsonl").read_text().splitlines()) == 3
    found = load_dataset(parts).to_measurements(WORKLOADS[0])
    assert there in found
    (added,) = (m for m in found if m.platform.sms_granted == 16)
    assert added.candidate.launches == fake_measurement(WORKLOADS[0], 4).candidate.launches
    with pytest.raises(CostModelError, match="1 of 1 records were rejected"):
        append_dataset(parts, [stored(tmp_path / "b.jsonl", [older])])


def test_one_file_cannot_be_appended_to(single: Path, store: Path) -> None:
    for dataset in (single, single / "measurements.parquet"):
        with pytest.raises(
            CostModelError, match=r"in parts can be appended to, but .* is one file. Build it with"
        ):
            append_dataset(dataset, [store])


def test_one_process_at_a_time_appends(parts: Path, store: Path) -> None:
    with (
        FileLock(parts / ".append.lock"),
        pytest.raises(CostModelError, match=r"but another one is appending\. Wait"),
    ):
        append_dataset(parts, [store])


def test_what_no_checksum_names_is_no_part(parts: Path, tmp_path: Path) -> None:
    """As a killed process leaves it; the next one clears it away."""
    before = load_dataset(parts).to_measurements()
    stray = parts / "measurements/device_name=Tesla%20T4%2F2/part-1.parquet"
    stray.write_bytes(b"half")
    assert load_dataset(parts).to_measurements() == before
    append_dataset(parts, [stored(tmp_path / "a.jsonl", [fake_measurement(sms=16)])])
    assert len(load_dataset(parts).measurements) == len(before) + 1
    assert not stray.exists()


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "no sums"])
def test_damage_is_told(parts: Path, damage: str) -> None:
    part = parts / "measurements/device_name=Test%20GPU/part-0.parquet"
    data = part.read_bytes()
    if damage == "changed":
        part.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
    elif damage == "cut":
        part.write_bytes(data[:500])
    elif damage == "missing":
        part.unlink()
    else:
        (parts / "SHA256SUMS").unlink()
    with pytest.raises(CostModelError, match=r"must match its checksum|Cannot read|must name the parts"):
        load_dataset(parts)


def test_a_killed_append_leaves_the_old_dataset_or_the_new_one(parts: Path, tmp_path: Path) -> None:
    measured = [on(each, fake_measurement(name, sms=16)) for each in (DEVICE, OTHER) for name in WORKLOADS]
    campaign = stored(tmp_path / "a.jsonl", measured)
    old = load_dataset(parts).sha256
    reference = shutil.copytree(parts, tmp_path / "reference")
    new = append_dataset(reference, [campaign]).sha256
    chance = random.Random(0)
    for kill in range(KILLS):
        out = shutil.copytree(parts, tmp_path / f"killed-{kill}")
        reading, writing = Pipe(duplex=False)
        child = Process(target=append_until_killed, args=(out, campaign, writing))
        child.start()
        assert reading.recv() == "begins"
        time.sleep(chance.uniform(0.0, 0.3))
        child.kill()
        child.join()
        assert load_dataset(out).sha256 in (old, new)
    append_dataset(out, [campaign])
    assert contents(out) == contents(reference)
