import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import MAIN, command
from typer.testing import CliRunner, Result

from costmodel.cli import app
from costmodel.records import read_records

TINY: dict[str, Any] = {"runner": "cpu", "sms": [1], "workloads": ["matmul-m16-n16-k16"], "repeat_share": 0.0}
HAS_GPU = Path("/dev/nvidiactl").exists()


def campaign_file(path: Path, extra: str = "", **settings: Any) -> Path:
    """A campaign of two kernels, with some settings changed."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**TINY, **settings}.items()]
    path.write_text("\n".join([*lines, extra, "[kernels]", "random = 2"]))
    return path


def collect(config: Path, out: Path, *arguments: object) -> Result:
    line = ["collect", str(config), "--out", str(out), *map(str, arguments)]
    return CliRunner().invoke(app, line, env={"COLUMNS": "120"})


def read_terminal(descriptor: int) -> Iterator[bytes]:
    """What is written to a terminal, until nobody has it open any more."""
    with suppress(OSError):  # how Linux tells its end
        while read := os.read(descriptor, 4096):
            yield read


def assert_refused(result: Result, text: str) -> None:
    """One sentence on stderr, exit code 2, and no traceback."""
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert text in result.stderr


def test_missing_or_broken_files(tmp_path: Path) -> None:
    out, broken = tmp_path / "out", tmp_path / "broken.toml"
    assert_refused(collect(tmp_path / "nowhere.toml", out), "nowhere.toml, but No such file or directory")
    assert_refused(collect(tmp_path, out), "but Is a directory")
    broken.write_text("runner = ")
    assert_refused(collect(broken, out), "broken.toml must be a campaign file, but: Invalid value")
    broken.write_bytes(b"\xff\xfe")
    assert_refused(collect(broken, out), "broken.toml must be a campaign file, but: 'utf-8'")
    broken.write_text('runner = "cpu"')
    assert_refused(collect(broken, out), "missing required field `workloads`")
    assert not out.exists()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"extra": "budget = 3"}, "unknown field `budget`"),
        ({"runner": "tpu"}, "Invalid enum value 'tpu'"),
        ({"sms": "all"}, "Expected `array`, got `str` - at `$.sms`"),
        ({"sms": []}, "sms must list at least one, each once, but got []"),
        ({"sms": [1, 1]}, "sms must list at least one, each once, but got [1, 1]"),
        ({"workloads": ["matmul-m16-n16-k16"] * 2}, "workloads must list at least one, each once"),
        ({"workloads": ["gemm-m16-n16-k16"]}, "Unknown workload 'gemm-m16-n16-k16'"),
        ({"workloads": ["matmul-m16-n16"]}, "Unknown workload 'matmul-m16-n16'"),
        ({"workloads": ["matmul-m1-n4096-k4096"]}, "reserved for blind tests"),
        ({"workloads": ["matmul-m1-n4096-k4096-float16"]}, "reserved for blind tests"),
        ({"repeat_share": 1.5}, "Expected `float` <= 1.0 - at `$.repeat_share`"),
        ({"extra": "timing.repeats = 0"}, "Expected `int` >= 1 - at `$.timing.repeats`"),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    config = campaign_file(tmp_path / "a.toml", **settings)
    assert_refused(collect(config, tmp_path / "out"), text)
    assert not (tmp_path / "out").exists()


def test_rounds_need_budgets_to_compare_kernels_at(tmp_path: Path) -> None:
    config = campaign_file(tmp_path / "a.toml")
    plan = config.read_text()
    for line in ("rounds = 1", "rounds = 1\nparents_at = [2]"):
        config.write_text(f"{plan}\n{line}")
        assert_refused(collect(config, tmp_path / "out"), "kernels.parents_at must name one or more")


def test_options_that_are_wrong(tmp_path: Path) -> None:
    config = campaign_file(tmp_path / "a.toml")
    result = collect(config, tmp_path / "out", "--time-limit", "soon")
    assert result.exit_code == 2
    assert "--time-limit" in result.stderr
    assert CliRunner().invoke(app, ["collect", str(config)]).exit_code == 2  # no --out


@pytest.mark.parametrize(
    ("runner", "absent", "extra"),
    [("cpu", "tvm", "tvm"), ("cuda", "cuda", "cuda"), ("cuda", "tvm", "tvm")],
)
def test_missing_packages_are_named(tmp_path: Path, runner: str, absent: str, extra: str) -> None:
    if absent == "tvm" and runner == "cuda":
        pytest.importorskip("cuda.bindings")
    config = campaign_file(tmp_path / "a.toml", runner=runner)
    code = f"import sys; sys.modules[{absent!r}] = None; {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", code, "collect", config, "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: Measuring on ")
    assert done.stderr.endswith(f"run `pip install 'sm-costmodel[{extra}]'`.\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.tvm
@pytest.mark.skipif(HAS_GPU, reason="needs a machine without an NVIDIA GPU")
def test_cuda_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    pytest.importorskip("cuda.bindings")
    config = campaign_file(tmp_path / "a.toml", runner="cuda", sms=[8])
    result = collect(config, tmp_path / "out")
    assert_refused(result, "The cuda runner must have an NVIDIA GPU")
    assert "Use the cpu runner" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.tvm
@pytest.mark.parametrize("sms", [0, 4096])
def test_a_budget_that_cannot_be_granted(tmp_path: Path, sms: int) -> None:
    pytest.importorskip("tvm")
    config = campaign_file(tmp_path / "a.toml", sms=[1, sms])
    assert_refused(collect(config, tmp_path / "out"), f"but got {sms}")
    assert not (tmp_path / "out").exists()


@pytest.mark.tvm
def test_a_campaign_is_collected_resumed_and_kept_from_others(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    config, out, report = campaign_file(tmp_path / "a.toml"), tmp_path / "out", tmp_path / "report.json"
    stopped = collect(config, out, "--time-limit", "0", "--json", report)
    assert stopped.exit_code == 0, stopped.stderr
    assert "Stopped at the time limit; run the same command to go on: 0 measured now" in stopped.stdout
    assert json.loads(report.read_text())["finished"] is False

    finished = collect(config, out, "--json", report)
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.startswith("Measuring on ")
    assert "Finished: 2 measured now, 2 in" in finished.stdout
    assert json.loads(report.read_text()) == {
        "finished": True,
        "measured": 2,
        "stored": 2,
        "outcomes": {"ok": 2},
        "store": str(out / "measurements.jsonl"),
    }
    stored = list(read_records(out / "measurements.jsonl"))
    assert [m.outcome for m in stored] == ["ok", "ok"]

    other = campaign_file(tmp_path / "b.toml", seed=1)
    assert_refused(collect(other, out), "must hold this campaign or none, but it holds another one")
    assert list(read_records(out / "measurements.jsonl")) == stored


@pytest.mark.tvm
def test_progress_is_on_stderr(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    config = campaign_file(tmp_path / "a.toml")
    ours, its = os.openpty()
    with subprocess.Popen(
        command("collect", config, "--out", tmp_path),
        stdout=subprocess.PIPE,
        stderr=its,  # a terminal, where progress is drawn
        text=True,
        env={**os.environ, "COLUMNS": "120", "TERM": "xterm"},
    ) as child:
        os.close(its)
        shown = b"".join(read_terminal(ours)).decode()
        printed, _ = child.communicate()
    os.close(ours)
    assert child.returncode == 0
    assert "matmul-m16-n16-k16" in shown
    assert "2/2" in shown
    assert "2/2" not in printed
