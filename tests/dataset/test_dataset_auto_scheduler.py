"""Logs of auto_scheduler: what is read of a record, where it was measured, and damage."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from fake_auto_scheduler import CPU, STEPS, fake_line
from fake_foreign import PLATFORM_TOML, json_lines

from costmodel.dataset import build_dataset
from costmodel.dataset.importers._read import read_source
from costmodel.dataset.sources._base import ReadOptions
from costmodel.dataset.sources._source import FileContents
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome

pytestmark = pytest.mark.white_box


def read(tmp_path: Path, *lines: Any, options: ReadOptions | None = None) -> FileContents:
    path = tmp_path / "log.json"
    path.write_bytes(json_lines(list(lines)))
    return read_source(path, options)


def one(tmp_path: Path, **changes: Any) -> Measurement:
    (measurement,) = read(tmp_path, fake_line(**changes)).measurements
    return measurement


def test_a_record_is_a_foreign_kernel_with_named_decisions(tmp_path: Path) -> None:
    found = one(tmp_path)
    workload, decisions = found.candidate.workload, dict(found.candidate.config.decisions)
    assert workload.kind.startswith("auto_scheduler.matmul.")
    assert workload.dims == {"a": 128, "b": 64, "c": 256}
    assert decisions.pop("sketch")
    assert decisions == {
        "tile.3.0": (2, 4, 2, 8),  # 128 in four parts, of which the outermost is not written
        "tile.3.4": (16, 4),  # from the outermost inwards
        "tile.3.0#2": (32,),  # of an extent that is not known
        "compute_at.3": 5,
        "auto_unroll_max_step.3": 64,
    }
    assert (found.outcome, found.latencies_s) == (Outcome.OK, (1e-3, 1.1e-3))
    assert found.measured_at == "2021-07-14T20:44:38+00:00"
    assert found.platform.name == "Tesla T4/whole/40"
    assert found.platform.software["auto_scheduler_log"].startswith("log.json sha256:")
    assert found.platform.software["tvm_target"].startswith("cuda -keys")


@pytest.mark.parametrize(
    ("step", "changed", "is_same_sketch"),
    [
        (5, ["SP", 3, 0, 128, [8, 2, 8], 1], True),
        (13, ["CA", 3, 4, 6], True),
        (15, ["PR", 3, 0, "auto_unroll_max_step$512"], True),
        (5, ["SP", 3, 0, 128, [4, 2], 1], False),
        (13, ["CA", 3, 6, 5], False),
        (14, ["AN", 4, 0, 2], False),
        (11, ["FU", 4, [0, 1, 2]], False),
        (2, ["CI", 6], False),
    ],
)
def test_every_difference_of_two_kernels_is_in_their_configs(
    tmp_path: Path, step: int, changed: list[Any], is_same_sketch: bool
) -> None:
    steps = [*STEPS[:step], changed, *STEPS[step + 1 :]]
    first, second = read(tmp_path, fake_line(), fake_line(steps=steps)).measurements
    config, other = first.candidate.config, second.candidate.config
    assert config != other
    assert (config.decisions["sketch"] == other.decisions["sketch"]) == is_same_sketch


def test_two_keys_are_two_workloads(tmp_path: Path) -> None:
    keys = [
        ["matmul", 128, 64, 256, "float32"],
        ["matmul", 128, 64, 255, "float32"],
        ["matmul", 128, 64, 256, "float16"],
        ["matmul", [128, 64], 256, "float32"],
        ["matmul", 0, 64, 256, "float32"],
        ["dense", 128, 64, 256, "float32"],
        ["b32ed43fb351136894c322ee49097a1a"],
        ["many", *range(1, 40)],
        ["many", *range(2, 41)],
    ]
    found = read(tmp_path, *[fake_line(key=json.dumps(key)) for key in keys]).measurements
    workloads = {m.candidate.workload.name: m.candidate.workload for m in found}
    assert len(workloads) == len(keys)
    assert (
        len({workload.kind for workload in workloads.values()}) == len(keys) - 1
    )  # two differ in sizes alone


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (1, Outcome.INVALID_CONFIG, "INSTANTIATION_ERROR"),
        (2, Outcome.COMPILE_ERROR, "COMPILE_HOST"),
        (3, Outcome.COMPILE_ERROR, "COMPILE_DEVICE"),
        (4, Outcome.LAUNCH_ERROR, "RUNTIME_DEVICE"),
        (5, Outcome.WRONG_RESULT, "WRONG_ANSWER"),
        (6, Outcome.COMPILE_ERROR, "BUILD_TIMEOUT"),
        (7, Outcome.TIMEOUT, "RUN_TIMEOUT"),
        (8, Outcome.LAUNCH_ERROR, "UNKNOWN_ERROR"),
    ],
)
def test_an_error_is_an_outcome_without_latencies(
    tmp_path: Path, error: int, outcome: Outcome, message: str
) -> None:
    found = one(tmp_path, error=error, costs=[1e10])
    assert (found.outcome, found.error, found.latencies_s) == (outcome, message, ())


def test_the_target_says_where_it_was_measured(tmp_path: Path) -> None:
    cpu = one(tmp_path, target=CPU, behind=[[8, 64, 64, 0, 0, 0, 0, 0]])
    assert cpu.platform.name == "skylake/whole/8"
    assert cpu.platform.device.kind == "cpu"
    assert one(tmp_path, target="rocm -model=mi999", time=0).platform.name == "mi999/whole/0"
    with pytest.raises(
        CostModelError,
        match=r"log.json must name the platform of its measurements, but does not. Give `--platform",
    ):
        one(tmp_path, target="cuda -model=unknown")


def test_a_platform_file_says_it_instead(tmp_path: Path) -> None:
    (tmp_path / "platform.toml").write_text(PLATFORM_TOML)
    options = ReadOptions(platform=tmp_path / "platform.toml")
    source = read(tmp_path, fake_line(), fake_line(target=CPU), options=options)
    (found,) = source.measurements
    assert found.platform.name == "NVIDIA GeForce RTX 3090/whole/82"
    assert [reject.reason for reject in source.rejects] == [
        "the target of a record must match the platform's kind of device"
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "v0.7"}, r"version of a record must be one of v0\.2, "),
        ({"version": 6}, "version of a record must be"),
        ({"key": "matmul"}, "workload key must be a JSON list"),
        ({"key": "[3]"}, "workload key must be a JSON list"),
        ({"key": 3}, "in the format of auto_scheduler"),
        ({"target": "opencl -model=t4"}, "target must begin with one of cuda"),
        ({"target": ""}, "target must begin with one of cuda"),
        ({"behind": [[1], "", 1, [], 5]}, "in the format of auto_scheduler"),
        ({"steps": [["XX", 1]]}, "in the format of auto_scheduler"),
        ({"steps": [["SP", 1, 0, 8, [2], 1, 7]]}, "in the format of auto_scheduler"),
        ({"steps": [["SP", 1, 0, 8, [None], 1]]}, "in the format of auto_scheduler"),
        ({"steps": [["SP", 1, 0, 8, [0], 1]]}, "a list of positive integers"),
        ({"steps": [["CA", 1, "x", 2]]}, "in the format of auto_scheduler"),
        ({"costs": []}, "without an error must have costs"),
        ({"costs": [1e10]}, "stand for a failure"),
        ({"costs": [-1.0]}, "costs must be finite"),
        ({"costs": ["1"]}, "in the format of auto_scheduler"),
        ({"error": 9}, "error_no must be 0 to 8"),
        ({"time": 1e30}, "timestamp must be seconds"),
    ],
)
def test_what_cannot_be_believed_is_rejected_alone(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    source = read(tmp_path, fake_line(), fake_line(**changes), fake_line(costs=[2e-3]))
    assert len(source.measurements) == 2
    (found,) = source.rejects
    assert found.record["number"] == 2
    assert re.search(reason, found.reason)


def test_a_torn_last_line_is_rejected_and_comments_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.json.gz"
    data = b"# a comment\n" + json_lines([fake_line()]) + b"\n # another\n" + json_lines([fake_line()])[:-9]
    path.write_bytes(gzip.compress(data))
    source = read_source(path)
    assert len(source.measurements) == 1
    (reject,) = source.rejects
    assert (reject.reason, reject.record["number"]) == (
        "a line must be JSON (a killed process leaves its last line incomplete)",
        5,
    )


def test_logs_of_old_versions_have_less_of_the_task(tmp_path: Path) -> None:
    found = one(tmp_path, version="v0.2", behind=[])
    assert found.platform.name == "Tesla T4/whole/40"


def test_a_log_becomes_a_dataset(tmp_path: Path, header) -> None:
    path = tmp_path / "log.json"
    lines = [fake_line(), fake_line(error=7, costs=[1e10], steps=STEPS[:5]), fake_line(version="v9")]
    path.write_bytes(json_lines(lines))
    report = build_dataset([path], tmp_path / "out", header=header)
    assert (report.measurements, sum(report.rejects.values())) == (2, 1)
