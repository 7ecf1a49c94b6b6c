"""Networks are measured and traced on a CPU as on a GPU, in small."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "real_traces"


@pytest.mark.torch
def test_networks_are_measured_and_traced(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    networks = ["bert", "dlrm-train"]
    command = [sys.executable, FOLDER / "record.py", "--out", tmp_path, "--device", "cpu", "--runs", "2"]
    done = subprocess.run([*command, "--only", *networks], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "measurements.json").read_text())["rows"]
    assert {row["network"] for row in rows} == set(networks)
    measured = [row for row in rows if not row["error"]]
    assert {row["variant"] for row in measured if row["network"] == "dlrm-train"} == {
        "forloop",
        "foreach",
        "fused",
        "half-foreach",
        "half-fused",
    }
    assert all(len(row["wall_s"]) == 2 and min(row["wall_s"]) > 0 for row in measured)
    assert all("need a GPU" in row["error"] for row in rows if row["graph"] or row["sms"])
    with zipfile.ZipFile(tmp_path / "traces.zip") as archive:
        names = archive.namelist()
        events = json.loads(archive.read("bert/gelu.json"))["traceEvents"]
    assert "dlrm-train/foreach+shapes.json" in names
    assert len(names) == len(measured) + 2
    assert {"gelu", "iteration", "aten::gelu"} <= {event["name"] for event in events}


@pytest.mark.torch
def test_what_no_time_is_left_for_is_said(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, FOLDER / "record.py", "--out", tmp_path, "--device", "cpu", "--only", "views"]
    done = subprocess.run([*command, "--time-limit", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "measurements.json").read_text())["rows"]
    assert {row["error"] for row in rows} == {"TimeoutError: no time was left"}
    assert "no time was left" in done.stdout
