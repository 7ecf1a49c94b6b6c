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

import costmodel
from costmodel.cli._app import app
from costmodel.collector import CampaignConfig, estimate_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.records import Measurement, RecordStore, Workload, read_records

pytestmark = pytest.mark.white_box

TINY: dict[str, Any] = {"runner": "cpu", "sms": [1], "workloads": ["matmul-m16-n16-k16"], "repeat_share": 0.0}
CONFIGS = sorted(
    path
    for path in (Path(__file__).parents[2] / "configs").glob("*.toml")
    if not path.name.startswith("evaluate-")
)
HAS_GPU = Path("/dev/nvidiactl").exists()


def campaign_file(path: Path, extra: str = "", **settings: Any) -> Path:
    """A campaign of two kernels, with some settings changed."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**TINY, **settings}.items()]
    path.write_text("\n".join([*lines, extra, "[kernels]", "random = 2"]))
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["collect", *map(str, arguments)], env={"COLUMNS": "120"})


def collect(config: Path, out: Path, *arguments: object) -> Result:
    return invoke("run", config, "--out", out, *arguments)


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
    assert_refused(collect(tmp_path / "nowhere.toml", out), "nowhere.toml: No such file or directory")
    assert_refused(collect(tmp_path, out), ": Is a directory")
    broken.write_text("runner = ")
    assert_refused(collect(broken, out), "broken.toml must be a campaign file, but: Invalid value")
    broken.write_bytes(b"\xff\xfe")
    assert_refused(collect(broken, out), "broken.toml must be a campaign file, but: byte 1 is not UTF-8")
    broken.write_text('runner = "cpu"')
    assert_refused(collect(broken, out), "it lacks workloads, sms, kernels")
    assert not out.exists()


@pytest.mark.tvm
def test_kernels_are_chosen_beforehand(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    model, file = tmp_path / "m.costmodel", tmp_path / "chosen.json"
    costmodel.train("h100-sm-budgets", "ridge").save(model)
    config = campaign_file(tmp_path / "c.toml", runner="cuda", sms=[8])
    options = ["--out", tmp_path / "out", "--model", model, "--json", file, "--workers", "1"]
    assert_refused(invoke("propose", config, *options[:2], "--model", tmp_path / "none"), "none")
    result = invoke("propose", config, *options)
    assert result.exit_code == 0
    assert "2 kernels of 1 workloads are in" in result.stdout
    assert json.loads(file.read_text())["kernels"] == {"matmul-m16-n16-k16": 2}
    assert [path.name for path in (tmp_path / "out").glob("proposals/*")] == ["matmul-m16-n16-k16.0.json"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"extra": "budget = 3"}, "it has the unknown budget"),
        ({"runner": "tpu"}, "Invalid enum value 'tpu'"),
        ({"sms": "all"}, "sms: Expected `array`, got `str`"),
        ({"sms": []}, "sms must list at least one, each once, but got []"),
        ({"extra": "[mps]\nsms = [8]"}, "mps and partitions need the cuda runner"),
        ({"partitions": 2}, "mps and partitions need the cuda runner"),
        ({"runner": "cuda", "extra": "[mps]\nsms = []"}, "mps.sms must list at least one"),
        ({"sms": [1, 1]}, "sms must list at least one, each once, but got [1, 1]"),
        ({"workloads": ["matmul-m16-n16-k16"] * 2}, "workloads must list at least one, each once"),
        ({"workloads": ["gemm-m16-n16-k16"]}, "Unknown workload 'gemm-m16-n16-k16'"),
        ({"workloads": ["matmul-m16-n16"]}, "Unknown workload 'matmul-m16-n16'"),
        (
            {"leave_out": ["matmul-k4096"], "workloads": ["matmul_bias-m1-n4096-k4096-float16"]},
            "must not be measured, as leave_out names matmul-k4096",
        ),
        ({"extra": "leave_out = ['conv2d_nhwc-c64']"}, "A shape must be an operator without layout"),
        ({"repeat_share": 1.5}, "repeat_share: Expected `float` <= 1.0"),
        ({"extra": "timing.repeats = 0"}, "timing.repeats: Expected `int` >= 2"),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    config = campaign_file(tmp_path / "a.toml", **settings)
    assert_refused(collect(config, tmp_path / "out"), text)
    assert_refused(invoke("plan", config), text)
    assert not (tmp_path / "out").exists()


def test_rounds_need_budgets_to_compare_kernels_at(tmp_path: Path) -> None:
    config = campaign_file(tmp_path / "a.toml")
    plan = config.read_text()
    for line in ("rounds = 1", "rounds = 1\ngood_at = [2]"):
        config.write_text(f"{plan}\n{line}")
        assert_refused(collect(config, tmp_path / "out"), "kernels.good_at must name one or more")


def test_options_that_are_wrong(tmp_path: Path) -> None:
    config = campaign_file(tmp_path / "a.toml")
    result = collect(config, tmp_path / "out", "--time-limit", "soon")
    assert result.exit_code == 2
    assert "--time-limit" in result.stderr
    assert invoke("run", config).exit_code == 2  # no --out
    assert invoke("run", config, "--out", tmp_path / "out", "--devices", 0).exit_code == 2
    assert invoke("plan", config, "--builders", 0).exit_code == 2
    assert invoke("status").exit_code == 2
    assert invoke(config, "--out", tmp_path / "out").exit_code == 2  # no command
    assert not (tmp_path / "out").exists()


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
        [sys.executable, "-c", code, "collect", "run", config, "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: Measuring on ")
    assert f"[{extra}]" in done.stderr
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


@pytest.mark.tvm
@pytest.mark.parametrize(("sms", "said"), [(0, "sms 2: Expected `int` >= 1"), (4096, "but got 4096")])
def test_a_budget_that_cannot_be_granted(tmp_path: Path, sms: int, said: str) -> None:
    pytest.importorskip("tvm")
    config = campaign_file(tmp_path / "a.toml", sms=[1, sms])
    assert_refused(collect(config, tmp_path / "out"), said)
    CampaignFolder(tmp_path / "out").claim(CampaignConfig.load(campaign_file(config)))  # it can be mended


@pytest.mark.tvm
def test_a_campaign_is_collected_resumed_and_kept_from_others(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    config, out, report = campaign_file(tmp_path / "a.toml"), tmp_path / "out", tmp_path / "report.json"
    stopped = collect(config, out, "--time-limit", "0", "--json", report)
    assert stopped.exit_code == 0, stopped.stderr
    said = " ".join(stopped.stdout.split())
    assert "Stopped at the time limit; run the same command to go on: 0 measured now" in said
    assert json.loads(report.read_text())["finished"] is False

    finished = collect(config, out, "--json", report)
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.startswith("Measuring on ")
    assert "Finished: 2 measured now, 2 in" in " ".join(finished.stdout.split())
    assert json.loads(report.read_text()) == {
        "campaign": "a",
        "sources": ["metaschedule"],
        "measured_on": finished.stdout.splitlines()[0],
        "finished": True,
        "measured": 2,
        "stored": 2,
        "outcomes": {"ok": 2},
        "store": str(out / "measurements.jsonl"),
    }
    stored = list(read_records(out / "measurements.jsonl"))
    assert [m.outcome for m in stored] == ["ok", "ok"]

    other = campaign_file(tmp_path / "b.toml", seed=1)
    assert_refused(collect(other, out), "must contain this campaign or none, but contains another one")
    assert list(read_records(out / "measurements.jsonl")) == stored
    assert len(list((out / "kernels").glob("*/*/*.so"))) == 2

    two_threads = campaign_file(tmp_path / "c.toml", sms=[1, 2] if (os.cpu_count() or 1) > 1 else [1])
    elsewhere = tmp_path / "elsewhere"
    copied = collect(two_threads, elsewhere, "--candidates", out)
    assert copied.exit_code == 0, copied.stderr
    again = list(read_records(elsewhere / "measurements.jsonl"))
    assert {m.candidate.candidate_id for m in again} == {m.candidate.candidate_id for m in stored}

    done = json.loads(status(out, report).read_text())
    assert (done["measured"], done["expected"], done["measurements"]) == (2, 2, 2)


def test_candidates_of_no_campaign(tmp_path: Path) -> None:
    config = campaign_file(tmp_path / "a.toml")
    result = collect(config, tmp_path / "out", "--candidates", tmp_path)
    assert_refused(
        result, "must be of a dataset or in the folder of a campaign that drew some. A dataset must be"
    )


@pytest.mark.tvm
def test_progress_is_on_stderr(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    config = campaign_file(tmp_path / "a.toml")
    ours, its = os.openpty()
    with subprocess.Popen(
        command("collect", "run", config, "--out", tmp_path),
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


def status(folder: Path, report: Path) -> Path:
    """File with what ``collect status`` says of a folder."""
    result = invoke("status", folder, "--json", report)
    assert result.exit_code == 0, result.stderr
    return report


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_the_campaigns_that_come_with_it_can_be_planned(tmp_path: Path, config: Path) -> None:
    result = invoke("plan", config, "--builders", 16, "--json", tmp_path / "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "build processes: 16, devices: 1" in " ".join(result.stdout.split())
    estimate = json.loads((tmp_path / "plan.json").read_text())
    campaign = CampaignConfig.load(config)
    assert estimate["workloads"] == len(campaign.workloads)
    assert estimate["kernels"] == len(campaign.workloads) * campaign.kernels_per_workload
    assert f"{estimate['measurements']:,}" in result.stdout


def test_a_plan_counts_what_is_asked_for(tmp_path: Path) -> None:
    extra = "[mps]\nsms = [16, 32]\nshare = 0.25"
    settings = {"runner": "cuda", "sms": [8, 16, 32, 132], "repeat_share": 0.5}
    config = CampaignConfig.load(campaign_file(tmp_path / "a.toml", extra, **settings))
    one = estimate_campaign(config, builders=1)
    assert (one.workloads, one.kernels) == (1, 2)
    assert one.measurements == 2 * (4 + 0.25 * 2) * 1.5 + 0.5  # 13.5 rounds to the even 14
    assert one.total_s == max(one.build_s, one.device_s)
    four = estimate_campaign(config, builders=4, devices=2)
    assert four.build_s == pytest.approx(one.build_s / 4)
    assert four.device_s == pytest.approx(one.device_s / 2)


def test_the_status_of_a_campaign(tmp_path: Path, measurements: list[Measurement]) -> None:
    """Of two workloads, one was drawn and measured in part: two of three kernels on one of two budgets."""
    names = [measurements[0].candidate.workload.name, "softmax-m64-n32"]
    settings = {"runner": "cuda", "sms": [8, 32], "workloads": names}
    config = campaign_file(tmp_path / "a.toml", **settings)
    folder = CampaignFolder(tmp_path / "out")
    folder.claim(CampaignConfig.load(config))
    kernels = list({m.candidate.candidate_id: m.candidate for m in measurements[:20]}.values())[:3]
    folder.write_proposals(Workload.parse(names[0]), 0, kernels)
    known = [m for m in measurements if m.candidate in kernels[:2] and m.platform.sms_granted == 8]
    with RecordStore(folder.store) as store:
        store.append(known)
    report = json.loads(status(folder.path, tmp_path / "status.json").read_text())
    assert report == {
        "workloads": [
            {
                "workload": names[0],
                "rounds": 1,
                "kernels": 3,
                "measured": 2,
                "expected": 3 * 2,
                "repeats": sum(m.visit for m in known),
                "outcomes": {"ok": len(known)},
            },
            {
                "workload": names[1],
                "rounds": 0,
                "kernels": 0,
                "measured": 0,
                "expected": 2 * 2,
                "repeats": 0,
                "outcomes": {},
            },
        ],
        "measured": 2,
        "expected": 10,
        "measurements": len(known),
    }
    shown = invoke("status", folder.path).stdout
    assert "2 of 10 first visits" in " ".join(shown.split())
    with RecordStore(folder.store):  # a running campaign holds its lock
        assert invoke("status", folder.path).stdout == shown


def test_the_status_of_a_folder_without_a_campaign(tmp_path: Path) -> None:
    result = invoke("status", tmp_path)
    assert_refused(result, "Give the folder that")
    assert "No such file or directory" in result.stderr
    (tmp_path / "campaign.json").write_text('{"runner": "cpu"}')
    assert_refused(invoke("status", tmp_path), "missing required field `workloads`")


@pytest.mark.parametrize("name", ["plan", "run", "status"])
def test_each_command_says_what_it_does_and_gives_an_example(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert f"costmodel collect {name}" in " ".join(result.stdout.split())
    assert "--json" in result.stdout
