"""T4 files: what each invalidity and unit becomes, what is rejected, and what the file must be given."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_foreign import PLATFORM_TOML, fake_t4

from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.errors import CostModelError
from costmodel.records import Outcome, Workload

pytestmark = pytest.mark.white_box


def read(tmp_path: Path, document: dict[str, Any]):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document))
    (tmp_path / "results.json.platform.toml").write_text(PLATFORM_TOML)
    return read_source(path)


def changed(**fields: Any) -> dict[str, Any]:
    document = fake_t4()
    document["results"][0].update(fields)
    return document


def test_each_invalidity_has_its_outcome(tmp_path: Path) -> None:
    source = read(tmp_path, fake_t4())
    assert source.rejects == []
    assert [m.outcome for m in source.measurements] == [
        Outcome.OK,
        Outcome.COMPILE_ERROR,
        Outcome.LAUNCH_ERROR,
        Outcome.TIMEOUT,
        Outcome.WRONG_RESULT,
        Outcome.INVALID_CONFIG,
    ]
    one, failed, *_ = source.measurements
    assert one.latencies_s == (1e-3, 1.5e-3, 2e-3)
    assert one.measured_at == "2023-01-29T03:49:35+00:00"
    assert one.candidate.workload == Workload.parse("suite.gemm-x4096")
    assert one.candidate.config.decisions == {"block": 16, "layout": "row", "tile": (4, 1)}
    assert one.platform.name == "NVIDIA GeForce RTX 3090/whole/82"
    assert one.platform.software["driver"] == "580.1"
    assert one.platform.software["t4_file"].startswith("results.json sha256:")
    assert (failed.latencies_s, failed.error) == ((), "compile")


@pytest.mark.parametrize(
    ("unit", "second"), [("s", 1.0), ("Milliseconds", 1e3), ("microseconds", 1e6), ("ns", 1e9)]
)
def test_the_objective_says_the_unit_of_the_runtimes(tmp_path: Path, unit: str, second: float) -> None:
    measurements = [{"name": "TotalDuration", "value": 5.0, "unit": unit}]
    document = changed(times={"runtimes": [5.0]}, measurements=measurements, objectives=["TotalDuration"])
    assert next(iter(read(tmp_path, document).measurements)).latencies_s == (5.0 / second,)


@pytest.mark.parametrize("unit", ["miliseconds", "milliseconds", "ms"])
def test_a_file_can_say_the_unit_of_all_its_results(tmp_path: Path, unit: str) -> None:
    """As files of the public hub do, whose measurements have an empty unit."""
    hub = changed(measurements=[{"name": "time", "value": 1.5, "unit": ""}], objectives=["time"])
    hub["metadata"] = {"timeunit": unit, "hardware": {}}
    source = read(tmp_path, hub)
    assert source.rejects == []
    assert next(iter(source.measurements)).latencies_s == (1e-3, 1.5e-3, 2e-3)
    hub["results"][0]["measurements"][0]["value"] = 9.0
    assert [reject.reason for reject in read(tmp_path, hub).rejects] == [
        "the time in measurements must lie within the range of runtimes"
    ]


def test_the_unit_of_a_result_wins_over_that_of_its_file(tmp_path: Path) -> None:
    document = fake_t4() | {"metadata": {"timeunit": "seconds"}}
    assert next(iter(read(tmp_path, document).measurements)).latencies_s == (1e-3, 1.5e-3, 2e-3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"invalidity": "unknown"}, "invalidity must be one of correct"),
        ({"correctness": 0}, "correctness of a correct result must be above 0"),
        ({"correctness": "yes"}, "must follow the T4 schema"),
        ({"times": {}}, "runtimes of a correct result must be a list"),
        ({"times": {"runtimes": [True]}}, "runtimes of a correct result must be a list"),
        ({"times": {"runtimes": [-1.0, 1.5]}}, "runtimes must be finite"),
        ({"times": {"runtimes": [1e20]}}, "stand for a failure"),
        ({"times": {"runtimes": [float("nan")]}}, "runtimes must be finite"),
        ({"times": {"runtimes": [3.0, 4.0]}}, "must lie within the range of runtimes"),
        ({"measurements": [{"name": "time", "value": 1.5, "unit": ""}]}, "with a unit of time"),
        ({"measurements": []}, "with a unit of time"),
        ({"configuration": {"block": None}}, "must be text or a finite number"),
        ({"configuration": {"tile": [4, 0.5]}}, "a list of positive integers"),
        ({"configuration": []}, "must follow the T4 schema"),
        ({"timestamp": "yesterday"}, "must be ISO 8601"),
    ],
)
def test_what_cannot_be_believed_is_rejected_alone(tmp_path: Path, fields: dict, reason: str) -> None:
    source = read(tmp_path, changed(**fields))
    assert len(source.measurements) == 5
    (reject,) = source.rejects
    assert reason in reject.reason
    assert (reject.record["file"], reject.record["number"]) == ("results.json", 1)
    assert json.loads(reject.record["entry"])["objectives"] == ["GFLOP/s"]


def test_the_command_line_can_say_where_and_what(tmp_path: Path) -> None:
    path, platform = tmp_path / "results.json", tmp_path / "p.toml"
    path.write_text(json.dumps(fake_t4()))
    with pytest.raises(CostModelError, match=r'Give `--platform platform.toml`.* `device = "RTX 3090"`'):
        read_source(path)
    platform.write_text('device = "RTX 3090"')
    with pytest.raises(CostModelError, match=r"exactly one must be given for results\.json, but got 0"):
        read_source(path, ReadOptions(platform))
    named = read_source(path, ReadOptions(platform, workloads=(Workload.parse("a.b-x3"),)))
    assert {m.candidate.workload.name for m in named.measurements} == {"a.b-x3"}
    assert next(iter(named.measurements)).platform.sms_granted == 82


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a platform"),
        ("device = ", "must be a platform"),
        ('device = "RTX 3090"\nsms = "82"', "must be a platform"),
        ('device = "RTX 3090"\nsm = 82', "must be a platform"),
        ('device = "Voodoo 2"', "costmodel devices list"),
        ('device = "RTX 3090"\nsms = 83', "must grant 1 to 82 SMs"),
        ('device = "RTX 3090"\nsms = 0', "must grant 1 to 82 SMs"),
        ('device = "RTX 3090"\nsms = 8', "all of them where isolation is whole"),
        ('device = "RTX 3090"\nisolation = "mps"', "must give the number of SMs granted"),
        ('device = "RTX 3090"\nworkload = "?"', "Unknown workload"),
        (
            '[device]\nname = "A"\nkind = "cuda"\narchitecture = ""\nsms = -1\nclock_mhz = 0.0',
            "sms must be a whole number",
        ),
        (
            '[device]\nname = "A"\nkind = "cuda"\narchitecture = ""\nsms = 1\nclock_mhz = inf',
            "must be finite",
        ),
    ],
)
def test_a_wrong_platform_is_one_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(fake_t4()))
    (tmp_path / "results.json.platform.toml").write_text(text)
    with pytest.raises(CostModelError, match=message):
        read_source(path)


def test_a_device_of_ones_own_and_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(fake_t4()))
    (tmp_path / "results.json.platform.toml").write_text(
        'sms = 8\nisolation = "mps"\nworkload = "a.b-x3"\n'
        '[device]\nname = "A"\nkind = "cuda"\narchitecture = "sm_90"\nsms = 16\nclock_mhz = 1000.0'
    )
    platform = next(iter(read_source(tmp_path / "results.json").measurements)).platform
    assert (platform.name, platform.device.sms) == ("A/mps/8", 16)


def test_results_that_are_no_list(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="results are not a list"):
        read(tmp_path, {"schema_version": "1.0.0", "results": {}})


def test_a_field_that_stands_twice(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"schema_version": "1.0.0", "results": [], "results": []}')
    with pytest.raises(CostModelError, match="each key of an object must be unique"):
        read_source(tmp_path / "a.json")


def test_characters_in_two_halves_are_whole_and_backslashes_are_none(tmp_path: Path) -> None:
    document = changed(configuration={"layout": "\U0001f600 \\ud800"})
    assert next(iter(read(tmp_path, document).measurements)).candidate.config.decisions == {
        "layout": "\U0001f600 \\ud800"
    }
