from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_records import BUDGETS, WORKLOADS, fake_measurement

from costmodel.dataset import (
    CardHeader,
    build_dataset,
    dataset_from_measurements,
    dataset_hash,
    iter_measurements,
    load_dataset,
)
from costmodel.dataset.table import _shipped as shipped
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, RecordStore


@pytest.fixture
def built(store: Path, tmp_path: Path, header: CardHeader) -> Path:
    return build_dataset([store], tmp_path / "built", header=header).path


def by_key(measurements: list[Measurement]) -> dict[str, Measurement]:
    return {measurement.key: measurement for measurement in measurements}


def test_what_was_measured_comes_back(built: Path, measurements: list[Measurement]) -> None:
    assert by_key(load_dataset(built).to_measurements()) == by_key(measurements)


def test_rows_come_back_as_they_were_built(tmp_path: Path, header: CardHeader) -> None:
    """Also where rows of one platform were measured with other software."""
    first = fake_measurement(tile=1)
    software = {**first.platform.software, "driver": "590.2"}
    records = [
        first,
        fake_measurement(tile=2, outcome=Outcome.TIMEOUT),
        msgspec.structs.replace(
            fake_measurement(tile=4), platform=msgspec.structs.replace(first.platform, software=software)
        ),
    ]
    store = tmp_path / "mixed.jsonl"
    with RecordStore(store) as opened:
        opened.append(records)
    built = build_dataset([store], tmp_path / "mixed", header=header).path
    assert by_key(list(iter_measurements(built))) == by_key(records)


def test_folder_and_file_are_the_same_dataset(built: Path) -> None:
    file = built / "measurements.parquet"
    pd.testing.assert_frame_equal(load_dataset(built).measurements, load_dataset(file).measurements)
    assert dataset_hash(built) == dataset_hash(file)


def test_one_object_for_each_candidate_and_platform(built: Path) -> None:
    dataset = load_dataset(built)
    assert len(dataset.candidates) == len(WORKLOADS) * 5
    assert len({candidate.candidate_id for candidate in dataset.candidates}) == len(dataset.candidates)
    assert sorted(platform.sms_granted for platform in dataset.platforms) == sorted(BUDGETS)


def test_latency_is_the_median_of_repeats_of_any_number() -> None:
    rng = np.random.default_rng(0)
    records = [
        msgspec.structs.replace(fake_measurement(tile=tile), latencies_s=tuple(rng.uniform(1, 2, size=count)))
        for tile, count in ((1, 1), (2, 4), (4, 5), (8, 4))
    ]
    records.append(fake_measurement(tile=16, outcome=Outcome.TIMEOUT))
    frame = dataset_from_measurements(records).measurements
    assert frame["latency_s"].tolist() == [record.latency_s for record in records]
    assert [tuple(row) for row in frame["latencies_s"]] == [record.latencies_s for record in records]


def test_a_platform_carries_all_versions_it_was_measured_with() -> None:
    first, second = fake_measurement(tile=1), fake_measurement(tile=2)
    platform = msgspec.structs.replace(second.platform, software={"driver": "590.2", "tvm": "0.27"})
    second = msgspec.structs.replace(second, platform=platform)
    dataset = dataset_from_measurements([first, second, first])
    assert [p.software for p in dataset.platforms] == [{"driver": "580.1, 590.2", "tvm": "0.27"}]


def test_others_can_read_the_file_without_us(built: Path, measurements: list[Measurement]) -> None:
    frame = pd.read_parquet(built / "measurements.parquet")
    assert len(frame) == len(measurements)
    ok = frame[
        (frame["outcome"] == "ok") & (frame["workload"] == "softmax-m512-n512") & (frame["visit"] == 0)
    ]
    expected = [m.latency_s for m in measurements if m.candidate.workload.kind == "softmax" and not m.visit]
    assert sorted(map(np.median, ok["latencies_s"])) == sorted(filter(np.isfinite, expected))
    schema = pq.read_schema(built / "measurements.parquet")
    assert schema.field("latencies_s").metadata[b"unit"] == b"s"
    assert all(field.metadata[b"description"] for field in schema)


def test_a_missing_dataset(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"nowhere is not there"):
        load_dataset(tmp_path / "nowhere")
    with pytest.raises(CostModelError, match=r"measurements\.parquet is not there"):
        load_dataset(tmp_path)


def test_a_changed_file_is_noticed_by_its_checksum(built: Path) -> None:
    file = built / "measurements.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CostModelError, match="its checksum differs"):
        load_dataset(built)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_without_checksums(built: Path, share: float) -> None:
    file = built / "measurements.parquet"
    (built / "SHA256SUMS").unlink()
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CostModelError, match="damaged or of another format"):
        load_dataset(built)


def test_foreign_files(tmp_path: Path, built: Path) -> None:
    text = tmp_path / "notes.parquet"
    text.write_text("hello")
    with pytest.raises(CostModelError, match="damaged or of another format"):
        load_dataset(text)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"workload": ["a"], "time": [1.0]}), other)
    with pytest.raises(
        CostModelError, match="but got no column kind, dims, dtype and the column time and another"
    ):
        load_dataset(other)
    table = pq.read_table(built / "measurements.parquet")
    pq.write_table(table.select(table.column_names[::-1]), other)
    with pytest.raises(CostModelError, match="but got another order of columns"):
        load_dataset(other)
    pq.write_table(table.slice(0, 0), other)
    with pytest.raises(CostModelError, match="must hold measurements"):
        load_dataset(other)


def test_the_shipped_dataset_is_looked_for_in_package_and_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shipped, "__file__", str(tmp_path / "costmodel" / "dataset" / "table" / "_shipped.py")
    )
    with pytest.raises(CostModelError, match="is in neither"):
        shipped.shipped_dataset()
    for folder in ("datasets", "costmodel/_datasets"):
        place = tmp_path / folder / "h100-sm-budgets"
        place.mkdir(parents=True)
        (place / "measurements.parquet").touch()
        assert shipped.shipped_dataset() == place
    with pytest.raises(CostModelError, match=r"The dataset sm-budgets must lie in .* but is in neither"):
        shipped.shipped_dataset("sm-budgets")


def test_the_larger_dataset_ships_too() -> None:
    assert shipped.shipped_dataset("sm-budgets") == Path(__file__).parents[2] / "datasets" / "sm-budgets"
