"""What is planted in files is found, named and counted; what is in order gives no finding."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from fake_caches import fake_cache, write_cache
from fake_records import fake_measurement, fake_measurements, fake_platform

from costmodel.dataset import examine
from costmodel.dataset.checks._check import Finding, Severity
from costmodel.dataset.checks._examine import Judge, write_rejects
from costmodel.dataset.sources._source import FileContents
from costmodel.records import (
    Candidate,
    Config,
    Device,
    Measurement,
    Platform,
    RecordStore,
    Workload,
    find_device,
)

pytestmark = pytest.mark.white_box

replace = msgspec.structs.replace


def findings_of(*sources: FileContents) -> list[Finding]:
    judge = Judge(sources)
    for workload in judge.workloads:
        judge.judge(workload)
    return list(judge.examination().findings)


def of_kind(kind: str, *sources: FileContents) -> list[Finding]:
    return [finding for finding in findings_of(*sources) if finding.kind == kind]


def source(name: str, records: list[Measurement]) -> FileContents:
    return FileContents.of(Path(name), records)


def slower(records: list[Measurement], times: float) -> list[Measurement]:
    return [replace(m, latencies_s=tuple(times * t for t in m.latencies_s)) for m in records]


def kernels(
    device: Device, count: int = 24, workload: str = "matmul-m1024-n1024-k1024", seed: int = 0
) -> list[Measurement]:
    """Kernels that reach 2 to 50 % of the device's peak, in an order that the seed decides."""
    shape, sms = Workload.parse(workload), device.sms
    peak = 2 * device.fp32_lanes_per_sm * sms * device.clock_mhz * 1e6
    shares = np.random.default_rng(seed).permutation(np.geomspace(0.02, 0.5, count)).tolist()
    return [
        replace(
            fake_measurement(),
            candidate=Candidate(shape, "fake", Config({"tile": tile})),
            platform=Platform(device, "whole", sms, sms),
            latencies_s=(shape.flops / (share * peak),),
        )
        for tile, share in enumerate(shares)
    ]


H100 = find_device("NVIDIA H100 80GB HBM3")
T4 = find_device("Tesla T4")


def test_devices_that_measured_the_same_are_named() -> None:
    (found,) = of_kind("near-twins", source("a", kernels(H100)), source("b", kernels(T4)))
    assert (found.severity, found.concerns, found.count) == (Severity.WARNING, f"{H100.name}, {T4.name}", 1)
    assert "rank correlation 1.000, latencies within 0.0%" in found.examples[0]


def test_files_in_order_give_no_finding() -> None:
    assert findings_of(source("a", list(fake_measurements()))) == []
    assert findings_of(source("a", kernels(H100)), source("b", kernels(T4, seed=1))) == []
    assert findings_of() == []


def test_configs_that_were_timed_by_several_versions_are_of_one_task() -> None:
    def timed(version: int, record: Measurement) -> Measurement:
        return replace(record, platform=replace(record.platform, software={"driver": f"580.{version}"}))

    records = [timed(version, record) for version, record in enumerate(kernels(H100))]
    assert findings_of(source("a", records)) == []
    (finding,) = findings_of(source("a", records[:1]))
    assert finding.kind == "best only"
    assert "1 of 1 have one" in finding.message


@pytest.mark.parametrize(
    ("times", "advice"),
    [
        (1e-3, "multiply these by 1,000."),
        (1e3, "divide these by 1,000."),
        (1e6, "divide these by 1,000,000."),
    ],
)
@pytest.mark.parametrize("device", [H100, T4], ids=["H100", "T4"])
def test_a_unit_that_the_device_rules_out(device: Device, times: float, advice: str) -> None:
    records = [*kernels(device), *kernels(device, workload="matmul-m128-n768-k3072")]
    (finding,) = of_kind("unit", source("a.jsonl", slower(records, times)))
    assert (finding.kind, finding.severity, finding.count) == ("unit", Severity.ERROR, 2)
    assert finding.concerns == f"a.jsonl: {device.name}"
    assert finding.message.endswith(advice)
    assert "in 2 of 2 tasks" in finding.message


def test_one_slow_workload_is_no_wrong_unit_but_one_impossible_one_is() -> None:
    good, other = kernels(H100), kernels(H100, workload="matmul-m128-n768-k3072")
    assert findings_of(source("a", good + slower(other, 1e3))) == []
    assert findings_of(source("a", slower(good, 50))) == []
    (finding,) = findings_of(source("a", good + slower(other, 1e-3)))
    assert (finding.count, "in 1 of 2 tasks" in finding.message) == (1, True)


def test_peaks_come_from_the_device_table_where_records_do_not_say() -> None:
    bare = Device(H100.name, "cuda", "", sms=0, clock_mhz=0.0)
    records = [replace(m, platform=Platform(bare, "whole", 0, 0)) for m in kernels(H100)]
    assert findings_of(source("a", records)) == []
    assert [f.kind for f in findings_of(source("a", slower(records, 1e-3)))] == ["unit"]


@pytest.mark.parametrize("times", [1e-3, 1e3, 1e6])
def test_a_unit_that_other_sources_rule_out(tmp_path: Path, times: float) -> None:
    paths = [
        write_cache(tmp_path / f"{name}.json", fake_cache(f"NVIDIA {name}", slowness))
        for name, slowness in (("A", 1.0), ("B", 5.0), ("C", times * 3.0))
    ]
    (finding,) = [f for f in examine(paths).findings if f.kind == "unit"]
    assert finding.severity is Severity.ERROR
    assert finding.concerns.startswith(f"{paths[2]}: kernel_tuner.convolution_kernel.")
    assert finding.count == 10
    power = "1,000" if times < 1e6 else "1,000,000"
    assert f"{'multiply' if times < 1 else 'divide'} these by {power}." in finding.message
    assert str(paths[0]) in finding.message


def test_devices_fifty_times_apart_are_believed_and_a_cpu_is_not_compared_with_a_gpu() -> None:
    def on(device: Device, times: float) -> FileContents:
        platform = Platform(device, "whole", 0, 0)
        return source(device.name, [replace(m, platform=platform) for m in slower(kernels(H100), times)])

    gpu, slow = (Device(name, "cuda", "", 0, 0.0) for name in ("A", "B"))
    cpu = Device("C", "cpu", "", 0, 0.0)
    assert of_kind("unit", on(gpu, 1.0), on(slow, 45.0)) == []
    assert len(of_kind("unit", on(gpu, 1.0), on(slow, 55.0))) == 1
    assert of_kind("unit", on(gpu, 1.0), on(cpu, 1e3)) == []


def test_parts_of_one_device_are_not_compared() -> None:
    cpu = Device("C", "cpu", "", 2, 0.0)
    one, two = (
        [replace(m, platform=Platform(cpu, "threads", n, n)) for m in slower(kernels(H100), times)]
        for n, times in ((1, 1.0), (2, 200.0))
    )
    assert of_kind("unit", source("busy", [*one, *two])) == []


@pytest.mark.parametrize("value", [0.5, 1e2, 1e3])
def test_failures_written_as_one_value(value: float) -> None:
    good = kernels(H100)
    planted = [replace(m, latencies_s=(value,)) for m in good[:4]]
    (finding,) = findings_of(source("a", planted + good[4:]))
    assert (finding.kind, finding.severity, finding.count) == ("failure value", Severity.ERROR, 4)
    assert f"share exactly {value:g} s" in finding.message
    assert len(finding.examples) == 3


def test_one_slow_kernel_is_none_and_neither_are_ties_of_a_coarse_timer() -> None:
    good = kernels(H100)
    assert findings_of(source("a", [replace(good[0], latencies_s=(1.0,)), *good[1:]])) == []
    coarse = [replace(m, latencies_s=(round(m.latency_s, 4) + 1e-4,)) for m in good]
    slowest = replace(good[0], latencies_s=(2 * max(m.latency_s for m in coarse),))
    assert len({m.latency_s for m in coarse}) < len(coarse) - 2
    assert findings_of(source("a", [slowest, *coarse[1:]])) == []


@pytest.mark.parametrize(
    ("change", "times", "correlation"),
    [(lambda m, i: 1.0, None, None), (lambda m, i: 1.04, None, None), (lambda m, i: 1.06, "1.06", "1.00")],
)
def test_two_files_of_one_device(
    change: Callable[[Measurement, int], float], times: str | None, correlation: str | None
) -> None:
    first = kernels(H100)
    second = [slower([m], change(m, i))[0] for i, m in enumerate(first)]
    found = of_kind("suites disagree", source("a", first), source("b", second))
    if times is None:
        assert found == []
    else:
        (finding,) = found
        assert (finding.severity, finding.count) == (Severity.ERROR, 24)
        assert f"takes {times} times as long (median), with a correlation of {correlation}" in finding.message
        assert finding.concerns == f"a and b: matmul-m1024-n1024-k1024 on {H100.name}"


def test_two_files_that_rank_the_configs_of_one_device_otherwise() -> None:
    first, second = kernels(H100), kernels(H100, seed=1)
    (finding,) = of_kind("suites disagree", source("a", first), source("b", second))
    logs = [np.log([m.latency_s for m in records]) for records in (first, second)]
    rank = [np.argsort(np.argsort(values)) for values in logs]
    assert f"a correlation of {np.corrcoef(rank)[0, 1]:.2f}" in finding.message
    backwards = [
        replace(m, latencies_s=other.latencies_s) for m, other in zip(first, kernels(H100)[::-1], strict=True)
    ]
    (finding,) = of_kind("suites disagree", source("a", first), source("b", backwards))
    assert "takes 1 times as long (median)" in finding.message
    few = of_kind("suites disagree", source("a", first[:9]), source("b", second[:9]))
    assert few == []
    elsewhere = kernels(T4, seed=1)
    assert of_kind("suites disagree", source("a", first), source("b", elsewhere)) == []


def test_equal_and_conflicting_records() -> None:
    first = kernels(H100)
    second = first[:20] + slower(first[20:], 1.01)
    found = {f.kind: f for f in findings_of(source("a", first), source("b", second))}
    assert found.keys() == {"duplicate", "conflict"}
    assert (found["duplicate"].count, found["conflict"].count) == (20, 4)
    assert found["conflict"].severity is Severity.WARNING
    assert found["conflict"].concerns in ("a", "b")


def test_faults_of_records_are_those_that_keep_them_out() -> None:
    records = list(fake_measurements())
    wrong = [
        replace(records[0], visit=5),
        replace(records[1], visit=5),
        replace(records[2], measured_at="now"),
    ]
    found = findings_of(source("a", [*wrong, *records[3:]]))
    assert {(f.kind, f.concerns, f.count) for f in found} == {("rejected", "a", 2), ("rejected", "a", 1)}
    assert {f.message.partition(":")[0] for f in found} == {
        "visit must be 0 or 1, but got 5",
        "measured_at must be a UTC time in ISO 8601, but got 'now'",
    }


def with_device(record: Measurement, **changes: Any) -> Measurement:
    return replace(record, platform=replace(fake_platform(), device=replace(H100, name="D", **changes)))


@pytest.mark.parametrize(
    ("change", "quantity"),
    [
        (lambda m: with_device(m, clock_mhz=1_980_000.0), "device.clock_mhz"),
        (lambda m: with_device(m, bandwidth_gb_s=3.35e6), "device.bandwidth_gb_s"),
        (lambda m: with_device(m, l2_bytes=50), "device.l2_bytes"),
        (lambda m: replace(m, after=replace(m.after, power_w=300_000.0)), "power_w"),
        (lambda m: replace(m, before=replace(m.before, clock_mhz=1.98)), "clock_mhz"),
        (lambda m: replace(m, before=replace(m.before, temperature_c=float("nan"))), "temperature_c"),
        (lambda m: replace(m, latencies_s=(m.latencies_s[0], 1e20)), "latencies_s"),
    ],
)
def test_numbers_that_no_device_has(change: Callable[[Measurement], Measurement], quantity: str) -> None:
    good = list(fake_measurements())
    found = of_kind("range", source("a", [*good, change(fake_measurement(tile=3))]))
    assert [(f.concerns, f.severity, f.count) for f in found] == [(f"a: {quantity}", Severity.ERROR, 1)]
    assert f"1 of {len(good) + 1} records have" in found[0].message


def changed(fields: dict[str, Any], count: int) -> dict[str, Any]:
    """A cache of which some entries that ran are changed."""
    cache = fake_cache()
    ran = [entry for entry in cache["cache"].values() if not isinstance(entry["time"], str)]
    for entry in ran[:count]:
        entry.update({name: make(entry) for name, make in fields.items()})
    return cache


def pair(ms: float) -> list[float]:
    return [0, ms]


@pytest.mark.parametrize(
    ("fields", "count", "text"),
    [
        ({"time": lambda e: pair(e["time"])}, 3, "time or times hold pairs [0, ms]"),
        ({"times": lambda e: [pair(t) for t in e["times"]]}, 4, "time or times hold pairs [0, ms]"),
        ({"times": lambda e: []}, 2, "times are missing"),
        ({"time": lambda e: "RuntimeFailedConfig"}, 5, "a failed config has times, which are left out"),
        ({"time": lambda e: "RuntimeFailedConfig"}, 5, "time is the text RuntimeFailedConfig"),
    ],
)
def test_entries_that_are_not_read_as_they_are_written(
    tmp_path: Path, fields: dict[str, Any], count: int, text: str
) -> None:
    examination = examine([write_cache(tmp_path / "a.json", changed(fields, count))])
    assert len(examination.rejects) == 0
    (finding,) = [f for f in examination.findings if text in f.message]
    assert (finding.kind, finding.severity, finding.count) == ("repair", Severity.NOTE, count)


def test_entries_that_contradict_themselves_or_stand_for_failures(tmp_path: Path) -> None:
    cache = changed({"time": lambda e: 2 * e["time"]}, 3)
    failed = [entry for entry in cache["cache"].values() if isinstance(entry["time"], str)]
    for entry, value in zip(failed, (1e10, 1e20), strict=True):
        entry["time"] = value
    examination = examine([write_cache(tmp_path / "a.json", cache)])
    assert {(f.kind, f.severity, f.count) for f in examination.findings} == {
        ("rejected", Severity.WARNING, 3),
        ("rejected", Severity.WARNING, 2),
    }
    assert len(examination.rejects) == 5
    assert (examination.files[0].records, examination.files[0].ok, examination.files[0].rejected) == (
        12,
        7,
        5,
    )


def test_what_does_not_enter_is_a_table_too(tmp_path: Path) -> None:
    cache = write_cache(tmp_path / "a.json", changed({"time": lambda e: 2 * e["time"]}, 3))
    good = fake_measurement()
    other = replace(good, latencies_s=(9.0,))
    bad = replace(fake_measurement(sms=132), visit=7)
    with RecordStore(tmp_path / "b.jsonl") as b, RecordStore(tmp_path / "c.jsonl") as c:
        b.append([good, bad])
        c.append([other])
    rejects = examine([cache, b.path, c.path]).rejects
    rows = rejects.table().to_pylist()
    assert [row["reason"] for row in rows] == [reject.reason for reject in rejects]
    assert [row["file"] for row in rows] == [str(cache)] * 3 + [str(c.path), str(b.path)]
    assert [row["entry"] for row in rows[:3]] == [reject.record["entry"] for reject in rejects[:3]]
    assert {row["workload"] for row in rows[:3]} == {None}
    assert [(row["workload"], row["candidate_id"], row["platform"], row["entry"]) for row in rows[3:]] == [
        (m.candidate.workload.name, m.candidate.candidate_id, m.platform.name, None)
        for m in (reject.record for reject in rejects[3:])
    ]
    write_rejects(rejects, tmp_path / "rejects.parquet")
    assert pq.read_table(tmp_path / "rejects.parquet").to_pylist() == rows


def test_where_all_enters_the_table_is_empty(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "a.jsonl") as store:
        store.append([fake_measurement()])
    table = examine([store.path]).rejects.table()
    assert (len(table), table.column_names[:2]) == (0, ["reason", "file"])


def test_a_device_without_a_name(tmp_path: Path) -> None:
    found = examine([write_cache(tmp_path / "MI250X.json", fake_cache(""))]).findings
    assert any(
        "device_name is empty, and AMD Instinct MI250X is from the file's name" in f.message for f in found
    )


def big_cache(count: int) -> dict[str, Any]:
    """A cache with this many configs of 32 x 64."""
    sides = {"block": list(range(1, 33)), "tile": list(range(1, 65))}
    entries = {
        f"{block},{tile}": {"block": block, "tile": tile, "time": 1.0 + block / tile}
        for block, tile in list(product(*sides.values()))[:count]
    }
    return {**fake_cache(), "tune_params_keys": list(sides), "tune_params": sides, "cache": entries}


@pytest.mark.parametrize(("count", "suspected"), [(2000, True), (1999, False), (2048, False)])
def test_a_file_that_stops_at_a_round_number(tmp_path: Path, count: int, suspected: bool) -> None:
    found = examine([write_cache(tmp_path / "a.json", big_cache(count))]).findings
    assert [f.count for f in found if f.kind == "partial space"] == [count] * suspected


def test_a_file_that_was_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text(json.dumps(fake_cache()).removesuffix("}}") + ",\n")
    (finding,) = [f for f in examine([path]).findings if f.kind == "partial space"]
    assert (finding.severity, finding.count) == (Severity.WARNING, 12)
    assert "never came to the end" in finding.message


def test_two_spaces_of_one_kernel_are_kept_apart(tmp_path: Path) -> None:
    other = fake_cache("NVIDIA B")
    other["tune_params"] = {**other["tune_params"], "filter": [17]}
    other["cache"] = {
        key.replace("15", "17"): {**entry, "filter": 17} for key, entry in other["cache"].items()
    }
    paths = [write_cache(tmp_path / "a.json", fake_cache()), write_cache(tmp_path / "b.json", other)]
    (finding,) = [f for f in examine(paths).findings if f.kind == "two spaces"]
    assert (finding.concerns, finding.count) == ("kernel_tuner.convolution_kernel", 2)


def repeated(shift: float, std: float = 0.0) -> list[Measurement]:
    """Kernels measured twice, the second time slower by ``shift``, with repeats of this relative std."""
    one, again = kernels(H100), slower(kernels(H100), 1 + shift)
    repeats = 1 + std * np.array([-1.0, 0.0, 1.0])
    return [
        replace(m, visit=visit, latencies_s=tuple((m.latency_s * repeats).tolist()))
        for visit, records in enumerate((one, again))
        for m in records
    ]


@pytest.mark.parametrize(("shift", "reported"), [(0.41, True), (0.06, True), (0.04, False)])
def test_kernels_that_do_not_repeat(shift: float, reported: bool) -> None:
    found = of_kind("noise", source("a.jsonl", repeated(shift)))
    assert [(f.severity, f.concerns, f.count) for f in found] == (
        [(Severity.WARNING, f"a.jsonl: {H100.name}/whole/132", 24)] if reported else []
    )
    assert all(f"differ by {shift:.0%}" in f.message for f in found)


@pytest.mark.parametrize(("std", "reported"), [(0.3, True), (0.09, False)])
def test_repeats_that_are_far_apart(std: float, reported: bool) -> None:
    found = of_kind("noise", source("a.jsonl", repeated(0.0, std)))
    assert [(f.severity, f.concerns, f.count) for f in found] == (
        [(Severity.WARNING, f"a.jsonl: {H100.name}", 48)] if reported else []
    )
    assert all(f"(median {std:.2g})" in f.message for f in found)


def in_seconds(cache: dict[str, Any]) -> dict[str, Any]:
    """The cache with its times in seconds, as someone wrote it who took them for the unit."""
    for entry in cache["cache"].values():
        if "times" in entry:
            entry |= {"time": entry["time"] / 1e3, "times": [time / 1e3 for time in entry["times"]]}
    return cache


def with_durations(cache: dict[str, Any]) -> dict[str, Any]:
    """The cache with the milliseconds that measuring an entry took."""
    for entry in cache["cache"].values():
        entry["benchmark_time"] = 1.02 * sum(entry.get("times", [])) or 1.0
    return cache


def test_seconds_are_noticed_in_a_file_alone(tmp_path: Path) -> None:
    in_order = write_cache(tmp_path / "a.json", with_durations(fake_cache(slowness=100.0)))
    assert [f for f in examine([in_order]).findings if f.kind == "unit"] == []
    wrong = write_cache(tmp_path / "b.json", in_seconds(with_durations(fake_cache(slowness=100.0))))
    (found,) = [f for f in examine([wrong]).findings if f.kind == "unit"]
    assert (found.severity, found.count) == (Severity.ERROR, 12)
    assert "1.02e+03 times as long" in found.message
    assert found.message.endswith("multiply these by 1,000.")


def test_foreign_kernels_shorter_than_a_launch(tmp_path: Path) -> None:
    wrong = write_cache(tmp_path / "a.json", in_seconds(fake_cache(slowness=0.1)))
    (found,) = [f for f in examine([wrong]).findings if f.kind == "unit"]
    assert (found.severity, found.count) == (Severity.ERROR, 10)
    assert "down to 1e-07 s" in found.message


def test_the_worst_comes_first() -> None:
    records = kernels(H100)
    planted = [replace(records[0], visit=7), *slower(records[1:], 1e-3), *slower(records[1:2], 1e-3)]
    severities = [f.severity for f in findings_of(source("a", planted))]
    assert severities == [Severity.ERROR, Severity.WARNING, Severity.NOTE]
