"""Networks are measured and traced on a CPU as on a GPU, in small."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "planner"))
from kineto_traces import Machine

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
    assert {event["ph"] for event in events} == {"X"}


@pytest.mark.torch
@pytest.mark.parametrize(("chosen", "count"), [("unseen", 13), ("later", 17), ("latest", 24), ("last", 17)])
def test_networks_that_rules_have_not_met_are_measured(chosen: str, count: int, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, FOLDER / "record.py", "--out", tmp_path, "--device", "cpu", "--runs", "2"]
    done = subprocess.run([*command, "--set", chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "measurements.json").read_text())["rows"]
    measured = [row for row in rows if not row["error"]]
    assert len({row["network"] for row in measured}) == count
    assert all("need a GPU" in row["error"] for row in rows if row["error"])
    with zipfile.ZipFile(tmp_path / "traces.zip") as archive:
        assert len([name for name in archive.namelist() if "+" not in name]) == len(measured)


@pytest.mark.torch
def test_what_no_time_is_left_for_is_said(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, FOLDER / "record.py", "--out", tmp_path, "--device", "cpu", "--only", "views"]
    done = subprocess.run([*command, "--time-limit", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "measurements.json").read_text())["rows"]
    assert {row["error"] for row in rows} == {"TimeoutError: no time was left"}
    assert "no time was left" in done.stdout


def step(kernels: int, *, graph: bool) -> Machine:
    """An iteration of kernels one by one or as a CUDA graph, between other work of the profiler."""
    machine = Machine()
    machine.synchronize()
    began = machine.now
    iteration = machine.host("iteration", 0.0, "user_annotation")
    if graph:
        machine.graph([("gemm", 8.0)] * kernels)
    else:
        for _ in range(kernels):
            machine.operator("aten::mm", "gemm", 8.0)
    machine.synchronize()
    iteration["dur"] = machine.now - began
    machine.now += 900.0
    machine.synchronize()
    return machine


def test_predictions_stand_beside_what_was_measured(tmp_path: Path) -> None:
    """Kernels of 8 us that the host launches every 10 us follow each other in a CUDA graph, as predicted."""
    rows = []
    with zipfile.ZipFile(tmp_path / "traces.zip", "w") as archive:
        for variant, graph in (("eager", False), ("graph", True)):
            machine = step(50, graph=graph)
            archive.write(machine.save(tmp_path / "trace.json"), f"net/{variant}.json")
            took = next(each["dur"] for each in machine.events if each["name"] == "iteration") * 1e-6
            row = {"network": "net", "variant": variant, "graph": graph, "half": False, "fused": "", "sms": 0}
            row |= {
                "optimizer": "",
                "error": "",
                "wall_s": [took, took],
                "event_s": [took] * 2,
                "traced_wall_s": {"": took},
            }
            rows.append(row)
        rows.append({**rows[0], "variant": "sms32", "sms": 32, "error": "RuntimeError: no driver"})
    (tmp_path / "measurements.json").write_text(json.dumps({"about": {"device": "a machine"}, "rows": rows}))
    command = [sys.executable, FOLDER / "run.py", "--traces", tmp_path, "--json", tmp_path / "result.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "result.json").read_text())
    assert [each["error"] for each in found["replays"]] == pytest.approx([0, 0], abs=1e-6)
    (prediction,) = found["predictions"]
    assert (prediction["base"], prediction["target"], prediction["what_if"]) == (
        "eager",
        "graph",
        "CUDA graphs",
    )
    assert abs(prediction["error"]) < 0.06
    assert prediction["repeats"]
    assert prediction["sign_right"]
    assert "| CUDA graphs | 1 |" in done.stdout
