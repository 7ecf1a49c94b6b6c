"""Exports: what comes back is what went out, and other programs' schemas are kept."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_records import DEVICE, fake_measurement, fake_measurements
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from costmodel.dataset import CardHeader, build_dataset, export_dataset
from costmodel.dataset._export import (
    by_task,
    export_parquet,
    export_records,
    kernel_tuner_cache,
    t4_document,
    write_json_file,
)
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.table._read import iter_measurements
from costmodel.dataset.table._records import Records
from costmodel.errors import CostModelError
from costmodel.kernels import sample_candidates
from costmodel.records import (
    Candidate,
    Config,
    Device,
    Measurement,
    Outcome,
    Platform,
    RecordStore,
    Workload,
    read_records,
)
from costmodel.records._measurement import DeviceState

pytestmark = pytest.mark.white_box

LOSSLESS = ("records", "parquet", "kernel-tuner", "t4")


def by_key(measurements: Sequence[Measurement]) -> list[Measurement]:
    return sorted(measurements, key=lambda one: one.key)


def write_store(path: Path, records: Sequence[Measurement]) -> Path:
    with RecordStore(path) as store:
        store.append(records)
    return path


def test_a_dataset_gives_its_records_one_by_one(built: Path, measurements: list[Measurement]) -> None:
    assert by_key(list(iter_measurements(built))) == by_key(measurements)


def test_rows_of_one_platform_keep_their_own_software(tmp_path: Path, header: CardHeader) -> None:
    one, other = fake_measurement(tile=1), fake_measurement(tile=2)
    other = replace(other, platform=replace(other.platform, software={"driver": "590.2"}))
    built = build_dataset([write_store(tmp_path / "a.jsonl", [one, other])], tmp_path / "out", header=header)
    assert by_key(list(iter_measurements(built.path))) == by_key([one, other])


@pytest.mark.parametrize("format_name", LOSSLESS)
def test_an_export_gives_the_same_dataset_again(
    built: Path, tmp_path: Path, header: CardHeader, format_name: str
) -> None:
    name = {"records": "a.jsonl", "parquet": "a.parquet"}.get(format_name, "folder")
    report = export_dataset(built, tmp_path / name, format_name)
    assert (report.measurements, report.left_out, report.lost) == (84, {}, "")
    again = build_dataset(report.files, tmp_path / "again", header=header)
    for file in ("measurements.parquet", "README.md"):
        assert (again.path / file).read_bytes() == (built / file).read_bytes()


def test_one_workload_and_one_device_can_be_taken(built: Path, tmp_path: Path) -> None:
    taken = {"workload": "softmax-m512-n512", "device": DEVICE.name}
    report = export_dataset(built, tmp_path / "t4", "t4", **taken)
    assert len(report.files) == 4  # one for each budget
    assert report.measurements == 28
    with pytest.raises(CostModelError, match="of workload matmul-m1-n1-k1 on device any, but has none"):
        export_dataset(built, tmp_path / "a.jsonl", "t4", workload="matmul-m1-n1-k1")
    with pytest.raises(CostModelError, match="must have measurements of workload any on device NVIDIA"):
        export_dataset(built, tmp_path / "a.parquet", "parquet", device="NVIDIA")
    assert not (tmp_path / "a.parquet").exists()


def test_wrong_places_and_formats(built: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    for format_name in ("records", "parquet"):
        with pytest.raises(CostModelError, match="must be a new file"):
            export_dataset(built, tmp_path / "a.jsonl", format_name)
    with pytest.raises(CostModelError, match="Cannot write"):
        export_dataset(built, tmp_path / "a.jsonl", "t4")
    with pytest.raises(CostModelError, match=r"must be a \.jsonl file"):
        export_dataset(built, tmp_path / "folder", "records")
    with pytest.raises(CostModelError, match="must be one of records, parquet"):
        export_dataset(built, tmp_path / "a", "csv")


def test_kernel_tuner_sees_a_cache_of_its_schema() -> None:
    records = [m for m in fake_measurements() if m.platform.sms_granted == 8][:7]
    cache = kernel_tuner_cache(records)
    required = {"schema_version", "device_name", "kernel_name", "problem_size", "tune_params_keys"}
    assert cache.keys() >= {*required, "tune_params", "objective", "cache"}
    assert cache["problem_size"] == [128, 768, 3072]
    assert cache["tune_params"]["factors"] == ["1x4", "2x4", "4x4", "8x4", "16x4"]
    assert list(cache["cache"]) == [f"{tile},{tile}x4,row,0.5" for tile in (1, 2, 4, 8, 16)]
    first, *_, failed = cache["cache"].values()
    assert first["times"] == [s * 1e3 for s in records[0].latencies_s]
    assert first["time"] == pytest.approx(sum(first["times"]) / 3)
    assert failed["time"] == "RuntimeFailedConfig"
    times = {"compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"}
    assert first.keys() >= {"time", "timestamp", *times}


def test_t4_readers_see_results_of_their_schema() -> None:
    outcomes = [fake_measurement(outcome=outcome) for outcome in Outcome]
    results = t4_document(outcomes)["results"]
    invalidity = ["correct", "constraints", "compile", "runtime", "timeout", "correctness"]
    assert [result["invalidity"] for result in results] == invalidity
    assert [result["correctness"] for result in results] == [1, 1, 1, 1, 1, 0]
    first = results[0]
    assert first["times"]["runtimes"] == [s * 1e3 for s in outcomes[0].latencies_s]
    assert first["configuration"] == {"tile": 1, "factors": [1, 4], "order": "row", "share": 0.5}
    assert first["measurements"][0]["unit"] == "ms"


@pytest.mark.parametrize("document", [kernel_tuner_cache, t4_document])
def test_a_change_by_hand_is_noticed(tmp_path: Path, document: Any) -> None:
    written = document([fake_measurement(tile=1), fake_measurement(tile=2)])
    entry = next(iter(written["cache"].values())) if "cache" in written else written["results"][0]
    entry["times" if "cache" in written else "invalidity"] = "timeout"
    write_json_file(tmp_path / "a.json", written)
    source = read_source(tmp_path / "a.json")
    assert list(source.measurements) == [fake_measurement(tile=2)]
    assert [r.reason for r in source.rejects] == ["an entry must agree with its records, but it was changed"]
    del entry["costmodel"]
    write_json_file(tmp_path / "b.json", written)
    assert "must have its records" in read_source(tmp_path / "b.json").rejects[0].reason


FLOATS = st.floats(5e-324, sys.float_info.max)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DECISIONS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.lists(st.integers(0, 2**40), max_size=4).map(tuple)
)
DEVICES = st.builds(
    Device,
    name=TEXTS,
    kind=st.sampled_from(["cuda", "hip", "cpu"]),
    architecture=TEXTS,
    sms=st.integers(0, 200),
    clock_mhz=st.just(0.0) | st.floats(1e-3, 1e9),
)
WORKLOADS = st.sampled_from(["matmul-m128-n768-k3072", "suite.kernel.a-x3", "suite.nothing"]).map(
    Workload.parse
)


@st.composite
def drawn_measurements(draw: st.DrawFn) -> Measurement:
    """A measurement with anything in it that a record store takes."""
    outcome = draw(st.sampled_from(Outcome))
    latencies = st.lists(FLOATS, min_size=1, max_size=3) if outcome is Outcome.OK else st.just([])
    config = Config(
        draw(st.dictionaries(st.sampled_from(["a", "b,c", "time", "costmodel"]) | TEXTS, DECISIONS))
    )
    candidate = Candidate(draw(WORKLOADS), draw(TEXTS), config)
    isolation = draw(st.sampled_from(["whole", "mps"]))
    sms, software = draw(st.integers(0, 200)), draw(st.dictionaries(TEXTS, TEXTS, max_size=2))
    return replace(
        fake_measurement(outcome=outcome),
        candidate=candidate,
        platform=Platform(draw(DEVICES), isolation, sms, sms, software),
        latencies_s=tuple(draw(latencies)),
        visit=draw(st.integers(0, 1)),
        before=DeviceState(power_w=draw(FLOATS), throttle_reasons=(draw(TEXTS),)),
        co_runners=tuple(draw(st.lists(TEXTS, max_size=1))),
        measured_at=draw(TEXTS),
        error=draw(TEXTS),
    )


@settings(max_examples=40)
@given(st.lists(drawn_measurements(), min_size=1, max_size=5, unique_by=lambda one: one.key))
def test_nothing_is_lost_on_the_way(drawn: list[Measurement]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_records(iter([Records.of(drawn)]), folder / "a.jsonl")
        assert list(read_records(folder / "a.jsonl")) == drawn
        export_parquet(iter([Records.of(drawn)]), folder / "a.parquet")
        assert list(iter_measurements(folder / "a.parquet")) == drawn
        for document in (kernel_tuner_cache, t4_document):
            found: list[Measurement] = []
            for task, records in by_task([Records.of(drawn)]):
                file = folder / f"{task}.json"
                write_json_file(file, document(records))
                assert file.parent == folder
                source = read_source(file)
                assert source.rejects == []
                found += source.measurements
            assert by_key(found) == by_key(drawn)


@pytest.mark.tvm
def test_a_metaschedule_export_gives_configs_platforms_and_latencies_again(
    tmp_path: Path, header: CardHeader
) -> None:
    tvm = pytest.importorskip("tvm")
    workload = Workload.parse("matmul-m32-n32-k32")
    drawn = sample_candidates(workload, "cuda", 3, seed=0)
    ours = [replace(fake_measurement(tile=i + 1, sms=8), candidate=c) for i, c in enumerate(drawn)]
    failed = replace(fake_measurement(tile=16, sms=32, outcome=Outcome.TIMEOUT), candidate=drawn[0])
    old = replace(ours[0], candidate=replace(drawn[0], space="metaschedule-cuda-0"))
    wrong = replace(ours[0], candidate=replace(drawn[0], config=Config({"sketch": 99})))
    out_of_place = [fake_measurement(), replace(ours[0], visit=1), old, wrong]
    store = write_store(tmp_path / "a.jsonl", [*ours, failed, *out_of_place])
    built = build_dataset([store], tmp_path / "out", header=header).path
    report = export_dataset(built, tmp_path / "db", "metaschedule")
    assert (report.measurements, len(report.files), sum(report.left_out.values())) == (4, 6, 4)
    assert len(report.left_out) == 4
    assert "kernel hash" in report.lost
    folders = sorted({file.parent for file in report.files})
    assert [folder.name.rpartition("-")[0] for folder in folders] == [
        "metaschedule_Test_GPU_green_context_32",
        "metaschedule_Test_GPU_green_context_8",
    ]
    lowered = ReadOptions(lower_traces="all")
    found = [m for folder in folders for m in read_source(folder, lowered).measurements]
    expected = {m.key: m for m in [*ours, failed]}
    assert {m.key for m in found} == expected.keys()
    for one in found:
        assert one.candidate == expected[one.key].candidate
        assert one.latencies_s == expected[one.key].latencies_s
        assert one.platform.device == DEVICE
        assert one.platform.software.items() >= expected[one.key].platform.software.items()
    database = tvm.s_tir.meta_schedule.database.JSONDatabase(work_dir=str(folders[1]))
    assert len(database.get_all_tuning_records()) == 3
