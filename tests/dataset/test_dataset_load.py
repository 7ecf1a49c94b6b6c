from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_records import BUDGETS, WORKLOADS, fake_measurement

from costmodel.dataset import CardHeader, build_dataset, find_dataset, load_dataset
from costmodel.dataset.table._dataset import DatasetFile
from costmodel.dataset.table._files import hash_dataset
from costmodel.dataset.table._read import dataset_from_measurements, iter_measurements
from costmodel.dataset.table._records import LATENCIES
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, RecordStore

pytestmark = pytest.mark.white_box


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


def test_rows_follow_from_latencies_alone(built: Path) -> None:
    whole, some = load_dataset(built), load_dataset(built, facts=LATENCIES)
    pd.testing.assert_frame_equal(some.rows, whole.rows)
    assert set(some.measurements) == {"candidate", "platform", "latency_s", *LATENCIES}
    assert some.candidates == whole.candidates
    assert some.sha256 == whole.sha256
    for needs_all in (some.to_measurements, some.to_pandas):
        with pytest.raises(
            CostModelError,
            match="but runs_per_repeat, visit, l2_policy",
        ):
            needs_all()


def test_texts_of_rows_are_shared(built: Path) -> None:
    tasks = load_dataset(built).rows["task"].to_numpy()
    assert len({id(task) for task in tasks}) == len(set(tasks)) < len(tasks)


def test_folder_and_file_are_the_same_dataset(built: Path) -> None:
    file = built / "measurements.parquet"
    pd.testing.assert_frame_equal(load_dataset(built).measurements, load_dataset(file).measurements)
    assert hash_dataset(built) == hash_dataset(file)


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
    with pytest.raises(CostModelError, match="must match its checksum"):
        load_dataset(built)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_without_checksums(built: Path, share: float) -> None:
    file = built / "measurements.parquet"
    (built / "SHA256SUMS").unlink()
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CostModelError, match="damaged or in another format"):
        load_dataset(built)


def test_foreign_files(tmp_path: Path, built: Path) -> None:
    text = tmp_path / "notes.parquet"
    text.write_text("hello")
    with pytest.raises(CostModelError, match="damaged or in another format"):
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
    with pytest.raises(CostModelError, match="must contain measurements"):
        load_dataset(other)


def test_a_dataset_that_ships_is_loaded_by_its_name() -> None:
    folder = Path(__file__).parents[2] / "datasets"
    assert find_dataset("sm-budgets") == folder / "sm-budgets"
    assert find_dataset() == folder / "h100-sm-budgets"
    dataset = load_dataset("h100-sm-budgets")
    assert dataset.name == "h100-sm-budgets"
    assert dataset.file == DatasetFile(find_dataset() / "measurements.parquet", hash_dataset(find_dataset()))
    assert load_dataset().sha256 == dataset.sha256 == hash_dataset("h100-sm-budgets")
    assert load_dataset(dataset) is dataset


def test_a_dataset_at_a_path_wins_over_one_that_ships(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sm-budgets").mkdir()
    assert find_dataset("sm-budgets").is_absolute()
    built.rename(tmp_path / "h100-sm-budgets")
    assert load_dataset("h100-sm-budgets").devices == ("Test GPU",)


def test_a_name_that_is_nearly_right() -> None:
    said = r"sm-budget is not there\. Did you mean 'h100-sm-budgets' or 'sm-budgets' or 'cuda-sm-budgets'\?"
    with pytest.raises(CostModelError, match=said):
        load_dataset("sm-budget")


def test_name_and_hash_come_with_the_dataset(built: Path, tmp_path: Path) -> None:
    dataset = load_dataset(built)
    assert (dataset.name, dataset.sha256) == ("built", hash_dataset(built))
    other = built / "others.parquet"
    (built / "measurements.parquet").rename(other)
    assert load_dataset(other).name == "others"


def test_what_was_made_in_memory_is_known_by_its_records(measurements: list[Measurement]) -> None:
    dataset = dataset_from_measurements(measurements)
    assert (dataset.name, dataset.file) == ("in memory", None)
    assert dataset.sha256 == dataset_from_measurements(measurements[::-1]).sha256
    assert dataset.sha256 != dataset_from_measurements(measurements[1:]).sha256


def test_a_dataset_shows_itself_in_a_few_lines(built: Path) -> None:
    dataset = load_dataset(built)
    assert repr(dataset) == (
        "<Dataset 'built': 84 measurements of 15 candidates and 3 workloads, on 4 platforms of Test GPU>"
    )
    page = dataset._repr_html_()
    assert "84 (ok 81, launch_error 3)" in page
    assert "8, 32, 64 SMs (green_context); 132 SMs (whole)" in page
    assert dataset.sha256[:16] in page
    assert len(page) < 2000


def test_what_it_shows_is_escaped() -> None:
    first = fake_measurement()
    device = msgspec.structs.replace(first.platform.device, name="<b>GPU</b>")
    platform = msgspec.structs.replace(first.platform, device=device)
    page = dataset_from_measurements([msgspec.structs.replace(first, platform=platform)])._repr_html_()
    assert "&lt;b&gt;GPU" in page
    assert "<b>" not in page


def test_a_plain_table_has_one_row_a_measurement(built: Path, measurements: list[Measurement]) -> None:
    dataset = load_dataset(built)
    frame = dataset.to_pandas()
    assert len(frame) == len(measurements)
    row = frame.query("workload == @WORKLOADS[1] and sms_granted == 32 and visit == 1").iloc[0]
    expected = fake_measurement(WORKLOADS[1], int(row["config.tile"]), 32, visit=1)
    assert row["latency_s"] == expected.latency_s
    assert (row["kind"], row["dtype"]) == ("softmax", "float32")
    assert (row["device"], row["isolation"], row["outcome"]) == ("Test GPU", "green_context", "ok")
    assert row["config.factors"] == f"{row['config.tile']}x4"
    assert (row["config.order"], row["config.share"], row["repeats"], row["co_runners"]) == ("row", 0.5, 3, 0)
    failed = frame[frame["outcome"] != "ok"]
    assert len(failed) == 3
    assert failed["latency_s"].isna().all()
    assert set(failed["error"]) == {"CUDA error"}


def test_a_plain_table_of_one_workload_has_its_parameters_only() -> None:
    dataset = load_dataset()
    frame = dataset.to_pandas("softmax-m1536-n128")
    assert set(frame["workload"]) == {"softmax-m1536-n128"}
    assert not frame.filter(like="config.").isna().all().any()
    every = dataset.to_pandas()
    assert every.filter(like="config.").shape[1] > frame.filter(like="config.").shape[1]
    assert every.loc[every["workload"] == "softmax-m1536-n128", "latency_s"].tolist() == pytest.approx(
        frame["latency_s"].tolist(), nan_ok=True
    )


def test_a_workload_that_was_not_measured(built: Path) -> None:
    with pytest.raises(CostModelError, match=r"of the 3 of built, .* Did you mean 'softmax-m512-n512'"):
        load_dataset(built).to_pandas("softmax-m512-n51")


def test_the_measurements_of_one_source_alone() -> None:
    name, every = "matmul-m512-n512-k512", load_dataset("cuda-sm-budgets")
    some = load_dataset("cuda-sm-budgets", workloads=[name], sources=["library"])
    expected = [m for m in every.to_measurements(name) if m.candidate.source == "library"]
    assert some.to_measurements() == expected
    assert {m.candidate.source for m in every.to_measurements(name)} == {"cuda", "library"}
    with pytest.raises(CostModelError, match=r"of these workloads of the sources triton, but has none"):
        load_dataset("cuda-sm-budgets", workloads=[name], sources=["triton"])
