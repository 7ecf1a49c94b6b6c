"""Cache files of Kernel Tuner: what is read, what is rejected and why, and that no damage is a traceback."""

import gzip
import json
import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fake_caches import fake_cache, write_cache
from hypothesis import given, settings
from hypothesis import strategies as st
from public_data import KERNEL_TUNER, needs_public_data

from costmodel.dataset import build_dataset, load_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._document import Document
from costmodel.errors import CostModelError
from costmodel.records import Outcome, Workload, find_device

pytestmark = pytest.mark.white_box

KEY = "32,2,col,15"  # of the entry that tests change


def read(tmp_path: Path, cache: dict[str, Any]):
    return read_source(write_cache(tmp_path / "a.json", cache))


def changed(**fields: Any) -> dict[str, Any]:
    cache = fake_cache()
    cache["cache"][KEY].update(fields)
    return cache


def measurement(source):
    """The one of the entry that tests change."""
    wanted = {"block": 32, "tile": 2, "layout": "col", "filter": 15}
    return next(m for m in source.measurements if m.candidate.config.decisions == wanted)


def reasons(source) -> set[str]:
    return {reject.reason for reject in source.rejects}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_every_entry_becomes_a_measurement(tmp_path: Path, name: str) -> None:
    source = read_source(write_cache(tmp_path / name, fake_cache()))
    assert (len(source.measurements), len(source.rejects)) == (12, 0)
    assert Counter(m.outcome for m in source.measurements) == {Outcome.OK: 10, Outcome.COMPILE_ERROR: 2}
    one = measurement(source)
    assert one.latencies_s == pytest.approx((0.999e-3, 1e-3, 1.001e-3))
    assert one.measured_at == "2023-01-29T03:49:35+00:00"
    assert one.candidate.workload.dims == {"x": 4096, "y": 2048}
    assert one.platform.device.name == "NVIDIA A"
    assert name in one.platform.software["kernel_tuner_cache"]
    failed = next(m for m in source.measurements if m.outcome is Outcome.COMPILE_ERROR)
    assert failed.error == "CompilationFailedConfig"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("InvalidConfig", Outcome.INVALID_CONFIG),
        ("CompilationFailedConfig", Outcome.COMPILE_ERROR),
        ("RuntimeFailedConfig", Outcome.LAUNCH_ERROR),
    ],
)
def test_a_failure_is_one_even_where_repeats_are_given(tmp_path: Path, name: str, outcome: Outcome) -> None:
    one = measurement(read(tmp_path, changed(time=name, times=[1.0, 1.0])))
    assert (one.outcome, one.latencies_s, one.runs_per_repeat) == (outcome, (), 0)


@pytest.mark.parametrize("time", [{}, {"time": 1.0, "times": [1.0]}])
def test_a_failure_that_stands_beside_the_time_is_one(tmp_path: Path, time: dict[str, Any]) -> None:
    cache = changed(__error__="RuntimeFailedConfig")
    del cache["cache"][KEY]["time"], cache["cache"][KEY]["times"]
    cache["cache"][KEY].update(time)
    source = read(tmp_path, cache)
    one = measurement(source)
    assert (one.outcome, one.latencies_s, one.error) == (Outcome.LAUNCH_ERROR, (), "RuntimeFailedConfig")
    assert not source.rejects
    assert sum(source.repairs.values()) == 2 + bool(time)  # the two that do not compile, and times left out


@pytest.mark.parametrize(
    ("device", "percentage", "requested", "granted"),
    [
        ("NVIDIA H100 80GB HBM3", 25, 33, 40),  # of 132, in steps of 8
        ("NVIDIA H100 80GB HBM3", 1, 1, 8),
        ("NVIDIA H100 80GB HBM3", 100, 132, 132),
        ("NVIDIA RTX A4000", 45, 22, 22),  # of 48, from 4 in steps of 2
        ("NVIDIA RTX A4000", 5, 2, 4),
        ("NVIDIA GeForce RTX 2080 Ti", 10, 7, 8),  # of 68, in steps of 2
    ],
)
def test_a_share_of_the_sms_is_where_a_config_ran(
    tmp_path: Path, device: str, percentage: int, requested: int, granted: int
) -> None:
    cache = with_share(fake_cache(device), percentage)
    source = read(tmp_path, cache)
    one, whole = measurement(source), measurement(read(tmp_path, fake_cache(device)))
    assert one.candidate == whole.candidate
    assert (one.platform.sms_requested, one.platform.sms_granted) == (requested, granted)
    assert one.platform.isolation == ("whole" if percentage == 100 else "green_context")
    assert "kernel_tuner_cache" in one.platform.software


def test_a_share_that_is_none_is_rejected(tmp_path: Path) -> None:
    source = read(tmp_path, with_share(fake_cache("NVIDIA RTX A4000"), 0))
    assert reasons(source) == {"cuda_sm_percentage must be above 0 and at most 100"}
    with pytest.raises(CostModelError, match="the SMs of Mine must be known"):
        read(tmp_path, with_share(fake_cache("Mine"), 50))


def with_share(cache: dict[str, Any], percentage: int) -> dict[str, Any]:
    """The cache, measured on so many percent of the SMs."""
    name = "cuda_sm_percentage"
    entries = {f"{key},{percentage}": {**entry, name: percentage} for key, entry in cache["cache"].items()}
    keys, values = [*cache["tune_params_keys"], name], {**cache["tune_params"], name: [percentage]}
    return {**cache, "tune_params_keys": keys, "tune_params": values, "cache": entries}


def test_pairs_and_single_times_are_milliseconds(tmp_path: Path) -> None:
    assert measurement(read(tmp_path, changed(time=[0, 2.0], times=[[0, 2.0]]))).latencies_s == (2e-3,)
    assert measurement(read(tmp_path, changed(time=2, times=[]))).latencies_s == (2e-3,)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"time": "1.0"}, "time must be a number or one of"),
        ({"time": "SomethingElse"}, "time must be a number or one of"),
        ({"time": None}, "must be numbers or pairs"),
        ({"time": True}, "must be numbers or pairs"),
        ({"time": [1, 2.0]}, "must be numbers or pairs"),
        ({"time": math.nan}, "must be finite"),
        ({"time": math.inf}, "must be finite"),
        ({"time": -1.0}, "must be finite"),
        ({"time": 0.0}, "must be finite"),
        ({"time": 1e-310, "times": [1e-310]}, "must be finite"),
        ({"time": 1e20, "times": [1e20]}, "stand for a failure"),
        ({"time": 10**400}, "stand for a failure"),
        ({"times": "abc"}, "times must be a list"),
        ({"times": [1.0, "1.0", 1.0]}, "must be numbers or pairs"),
        ({"times": [1.0, math.nan, 1.0]}, "must be finite"),
        ({"time": 1.02}, "time must be the mean of times"),
        ({"timestamp": "yesterday"}, "timestamp must be ISO 8601"),
        ({"timestamp": 5}, "timestamp must be ISO 8601"),
        ({"block": "32"}, "must be among those of tune_params"),
        ({"block": 33}, "key of an entry must list"),
        ({"block": None}, "key of an entry must list"),
    ],
)
def test_what_cannot_be_believed_is_rejected_alone(tmp_path: Path, fields: dict, reason: str) -> None:
    source = read(tmp_path, changed(**fields))
    assert len(source.measurements) == 11
    (reject,) = source.rejects
    assert reason in reject.reason
    assert KEY in json.loads(reject.record["entry"])
    assert msgspec.json.encode(reject)


def test_an_entry_must_be_an_object_with_all_parameters(tmp_path: Path) -> None:
    cache = fake_cache()
    cache["cache"][KEY] = 1.0
    assert reasons(read(tmp_path, cache)) == {"an entry must be an object"}
    cache = fake_cache()
    del cache["cache"][KEY]["layout"]
    assert reasons(read(tmp_path, cache)) == {"an entry must have a value for each of tune_params_keys"}


def test_an_unknown_time_is_kept_unknown(tmp_path: Path) -> None:
    cache = fake_cache()
    del cache["cache"][KEY]["timestamp"]
    assert measurement(read(tmp_path, cache)).measured_at == ""
    assert measurement(read(tmp_path, changed(timestamp="2023-01-29 05:49:35"))).measured_at == ""


def test_a_cache_that_was_never_closed_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text(json.dumps(fake_cache()).removesuffix("}}") + ",\n")
    assert len(read_source(path).measurements) == 12


def test_kernels_of_one_name_with_other_parameters_are_others(tmp_path: Path) -> None:
    def workload(cache: dict[str, Any]) -> Workload:
        return next(iter(read(tmp_path, cache).measurements)).candidate.workload

    ours, restricted, other = fake_cache(), fake_cache(), fake_cache()
    restricted["tune_params"] = {**ours["tune_params"], "block": [16, 32]}
    other["tune_params"] = {**ours["tune_params"], "filter": [17]}
    other["cache"] = {
        key.replace("15", "17"): {**entry, "filter": 17} for key, entry in ours["cache"].items()
    }
    assert workload(restricted) == workload(ours)
    assert workload(other) != workload(ours)


def test_a_device_without_a_name_has_that_of_the_file_and_amd_runs_hip(tmp_path: Path) -> None:
    path = write_cache(tmp_path / "MI9000.json.gz", fake_cache(device=""))
    platform = next(iter(read_source(path).measurements)).platform
    assert (platform.device.name, platform.device.kind, platform.sms_granted) == ("MI9000", "hip", 0)


def test_a_device_of_the_table_has_its_figures(tmp_path: Path) -> None:
    path = write_cache(tmp_path / "MI250X.json.gz", fake_cache(device=""))
    platform = next(iter(read_source(path).measurements)).platform
    assert platform.device == find_device("AMD Instinct MI250X")
    assert (platform.isolation, platform.sms_granted) == ("whole", 110)


PLATFORM = """
[device]
name = "Other GPU"
kind = "cuda"
architecture = "sm_99"
sms = 40
clock_mhz = 1000.0
"""


def test_the_platform_file_beside_a_cache_says_where_it_was_measured(tmp_path: Path) -> None:
    path = write_cache(tmp_path / "a.json", fake_cache("Other GPU"))
    assert next(iter(read_source(path).measurements)).platform.sms_granted == 0
    (tmp_path / "a.json.platform.toml").write_text(PLATFORM)
    source = read_source(path)
    platform = next(iter(source.measurements)).platform
    assert (platform.device.architecture, platform.isolation, platform.sms_granted) == ("sm_99", "whole", 40)
    assert platform.software["kernel_tuner_cache"].startswith("a.json sha256:")
    assert source.repairs.keys().isdisjoint({"device_name"})
    other = read_source(write_cache(path, fake_cache("NVIDIA A")))
    assert next(iter(other.measurements)).platform.device.name == "Other GPU"
    assert other.repairs["the file names NVIDIA A, and Other GPU is from the platform file beside it"] == 12


def test_a_platform_file_for_many_describes_the_caches_of_its_device(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(PLATFORM)
    options = ReadOptions(platform=tmp_path / "other.toml")
    ours = read_source(write_cache(tmp_path / "a.json", fake_cache("Other GPU")), options)
    assert next(iter(ours.measurements)).platform.sms_granted == 40
    another = read_source(write_cache(tmp_path / "b.json", fake_cache("NVIDIA A")), options)
    assert next(iter(another.measurements)).platform.device.name == "NVIDIA A"
    assert [reason for reason in another.repairs if "Other GPU" in reason] == [
        "the platform file describes Other GPU, and the file NVIDIA A: it is not used"
    ]


def test_a_problem_size_that_a_cache_does_not_say_is_given(tmp_path: Path) -> None:
    silent = fake_cache()
    said = next(iter(read(tmp_path, fake_cache()).measurements)).candidate
    del silent["problem_size"]
    path = write_cache(tmp_path / "a.json", silent)
    with pytest.raises(CostModelError, match=r"Give `--problem-size 4096,4096`"):
        read_source(path)
    for sizes in ("callable", ["n * 2", 16]):  # as Kernel Tuner writes a function, and expressions
        of_parameters = write_cache(tmp_path / "b.json", {**silent, "problem_size": sizes})
        with pytest.raises(CostModelError, match=r"in numbers, but says .*`--problem-size 4096,4096`"):
            read_source(of_parameters)
        given = read_source(of_parameters, ReadOptions(problem_size=(4096, 2048)))
        assert next(iter(given.measurements)).candidate == said
    given = read_source(path, ReadOptions(problem_size=(4096, 2048)))
    assert next(iter(given.measurements)).candidate == said
    (tmp_path / "a.json.platform.toml").write_text(f"problem_size = [4096, 2048]\n{PLATFORM}")
    assert next(iter(read_source(path).measurements)).candidate == said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem_size": [0]}, "problem_size"),
        ({"problem_size": [1, 2, 3, 4]}, "problem_size"),
        ({"problem_size": {"x": 1}}, "problem_size"),
        ({"tune_params_keys": ["block"]}, "name of tune_params_keys"),
        ({"kernel_name": None}, "kernel_name"),
        ({"cache": []}, "cache"),
    ],
)
def test_a_wrong_header_is_one_error(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        read(tmp_path, {**fake_cache(), **change})


def test_damaged_files_are_one_error(tmp_path: Path) -> None:
    whole = json.dumps(fake_cache()).encode()
    twice = whole.replace(b'"cache": {', b'"cache": {"16,1,row,15": {}, ', 1)
    for name, data, message in (
        ("cut.json.gz", gzip.compress(whole)[:-20], "Compressed file ended before the end"),
        ("cut.json", whole[:900], "must be a cache of Kernel Tuner"),
        ("twice.json", twice, "each key of an object must be unique"),
        ("deep.json", b'{"cache": ' + b"[" * 100_000, "must be a cache of Kernel Tuner"),
        ("halves.json", whole.replace(b"NVIDIA", rb"\ud800"), "surrogate escapes must come in pairs"),
        ("latin.json", whole.replace(b"NVIDIA", b"\xff"), "must be a cache of Kernel Tuner"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CostModelError, match=message):
            read_source(tmp_path / name)
    with pytest.raises(CostModelError, match="Cannot read"):
        read_source(tmp_path / "missing.json")


def test_a_small_file_cannot_unpack_to_any_size(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b'{"cache": {"16": "' + b"x" * 2**27))
    with pytest.raises(CostModelError, match="a value must have at most 67,108,864 characters"):
        read_source(bomb)
    bomb.write_bytes(gzip.compress(b'{"cache": {}}' + b" " * 2**20))
    with pytest.raises(CostModelError, match=r"at most 1,000,000 bytes unpacked, but has more"):
        Document.open(bomb, "a document", most_bytes=1_000_000)
    assert Document.open(bomb, "a document").counts == {"cache": 0}


def test_stores_and_caches_become_one_dataset(store: Path, tmp_path: Path, header) -> None:
    second, bad = fake_cache("NVIDIA B", 1.5), changed(time=-1.0)
    del second["cache"][KEY]
    caches = [write_cache(tmp_path / "a.json.gz", bad), write_cache(tmp_path / "b.json", second)]
    (tmp_path / "cut.json").write_bytes(b'{"crc')  # a store of which a kill left the beginning of a line
    caches.append(tmp_path / "cut.json")
    report = build_dataset([store, *caches], tmp_path / "out", header=header)
    assert (report.records, report.measurements) == (84 + 12 + 11, 84 + 11 + 11)
    assert report.rejects == {"time and times must be finite and at least one nanosecond": 1}
    empty, twins, partial, *failed = report.findings
    assert (twins.kind, twins.concerns) == ("near-twins", "NVIDIA A, NVIDIA B")
    assert (empty.kind, empty.concerns) == ("empty file", str(caches[2]))
    assert (partial.kind, partial.concerns, partial.count) == ("partial space", str(caches[1]), 11)
    assert "it has 11 of the 12 that another file has" in partial.message
    assert [(finding.kind, finding.count) for finding in failed] == [("repair", 2), ("repair", 2)]
    (reject,) = [json.loads(line) for line in (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()]
    assert reject["record"]["file"] == "a.json.gz"
    assert json.loads(reject["record"]["entry"])[KEY]["time"] == -1.0
    loaded = load_dataset(tmp_path / "out")
    assert set(loaded.rows["device"]) == {"Test GPU", "NVIDIA A", "NVIDIA B"}
    again = build_dataset([*caches[::-1], store], tmp_path / "again", header=header)
    assert again.sha256 == report.sha256


def test_a_dataset_of_caches_without_days_has_a_card(tmp_path: Path, header) -> None:
    cache = fake_cache()
    for entry in cache["cache"].values():
        del entry["timestamp"]
    build_dataset([write_cache(tmp_path / "a.json", cache)], tmp_path / "out", header=header)
    assert "- Measured: unknown to unknown" in (tmp_path / "out" / "README.md").read_text()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """A cache in which something is replaced by anything, or bytes are cut, changed or put in."""
    cache = fake_cache()
    for _ in range(draw(st.integers(0, 3))):
        entry = cache["cache"].get(KEY)
        holders = [cache, cache["cache"], entry, cache["tune_params"]]
        holder = draw(st.sampled_from([found for found in holders if isinstance(found, dict) and found]))
        holder = holder.copy() if holder is cache["tune_params"] else holder
        holder[draw(st.sampled_from(sorted(holder)))] = draw(ANYTHING)
        if "cache" not in cache or not isinstance(cache["cache"], dict):
            break
        if "tune_params" not in cache or not isinstance(cache["tune_params"], dict):
            break
    data = json.dumps(cache).encode()
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 3)) :]
    packed = gzip.compress(data, mtime=0) if draw(st.booleans()) else data
    return packed[: draw(st.integers(0, len(packed)))] if draw(st.booleans()) else packed


@settings(max_examples=300)
@given(damaged_files())
def test_any_damage_is_an_error_or_a_reject(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(data)
        try:
            source = read_source(path)
        except CostModelError:
            return
        assert msgspec.json.encode([list(source.measurements), source.rejects])
        assert all(0 < latency < 1e6 for one in source.measurements for latency in one.latencies_s)
        for one in source.measurements:
            assert Workload.parse(one.candidate.workload.name) == one.candidate.workload
            assert one.key


@needs_public_data
def test_public_caches_show_their_traps() -> None:
    files = sorted(KERNEL_TUNER.glob("*/conv*/*.json.gz"))
    sources = {str(p.relative_to(KERNEL_TUNER)): read_source(p) for p in files}
    assert len(sources) == 9
    rejects = {name: dict(Counter(r.reason for r in s.rejects)) for name, s in sources.items() if s.rejects}
    assert rejects == {
        "hub/convolution_milo/A6000.json.gz": {"time must be the mean of times, within 1%": 19}
    }
    assert len({name for s in sources.values() for name in s.measurements.workloads}) == 2
    outcomes = Counter(m.outcome for m in sources["hub/convolution_milo/A4000.json.gz"].measurements)
    assert outcomes == {Outcome.OK: 4201, Outcome.LAUNCH_ERROR: 155, Outcome.COMPILE_ERROR: 6}
