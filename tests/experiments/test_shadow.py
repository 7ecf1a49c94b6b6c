"""Tuning beside a service: the measurement on a GPU, run through on a CPU, and its tables."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from experiment_folder import found_beside

FOLDER = Path(__file__).parents[2] / "experiments" / "shadow"
MODULES = ("measure", "service", "report", "options", "apart")
CPU = ("--runner", "cpu", "--sms", "1", "--workload", "matmul-m64-n64-k64", "--pool", "3", "--trials", "2")


@pytest.fixture
def report() -> Iterator[Any]:
    with found_beside(FOLDER, MODULES):
        yield import_module("report")


def measure(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, FOLDER / "measure.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]


@pytest.mark.rehearsal
@pytest.mark.tvm
@pytest.mark.parametrize("way", [(), ("--in-thread",)], ids=["process", "thread"])
def test_all_parts_run_on_a_cpu(tmp_path: Path, way: tuple[str, ...]) -> None:
    quick = ("--seed", 0, "--alone", 1, "--pause", 2, "--time-limit", 60, *way)
    done = measure("--out", tmp_path, *CPU, *quick)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert [row for row in rows if row["kind"] == "error"] == []
    assert [row["way"] for row in rows if row["kind"] == "tuned"] == ["exclusive", "beside", "watched"]
    phases = ["alone", "building", "beside", "alone again", "watched", "alone at last"]
    for phase in phases:
        assert f"| {phase} |" in done.stdout
    (watched,) = [row["service"] for row in rows if row["kind"] == "tuned" and row["service"]]
    assert watched["requests"] > 0
    assert len([row for row in rows if row["kind"] == "again"]) == 2
    again = subprocess.run(
        [sys.executable, FOLDER / "report.py", tmp_path], capture_output=True, text=True, check=True
    )
    assert again.stdout == done.stdout


@pytest.mark.rehearsal
@pytest.mark.skipif(which("nvidia-smi") is not None, reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_fails(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    done = measure("--out", tmp_path, "--time-limit", 10)
    assert done.returncode == 1
    assert "MPS does not start" in done.stdout
    assert "must have an NVIDIA GPU" in done.stdout
    assert "Traceback" not in done.stderr
    again = measure("--out", tmp_path)
    assert again.returncode == 1
    assert "must hold no other measurement" in again.stderr


def test_requests_count_where_they_were_at_work(report: Any, tmp_path: Path) -> None:
    """Of 1 s each, ending every second from 1 to 10: those that overlap the time from 3.5 to 5.5."""
    text = "".join(f"1.0 {end}\n" for end in range(1, 11)) + "0.5"
    (tmp_path / "latencies.log").write_text(text)
    requests = report.read_requests(tmp_path)
    assert requests.shape == (10, 2)
    assert len(report.cut(requests, 3.5, 5.5)) == 3


def test_answers_are_compared_as_they_were_measured_again(report: Any, tmp_path: Path) -> None:
    tuned = {"kind": "tuned", "workload": "w", "seed": 0, "service": None, "best_s": 6.3}
    rows = [
        {**tuned, "way": "exclusive", "best": "a"},
        {**tuned, "way": "beside", "best": "b"},
        {**tuned, "way": "watched", "best": "a"},
        {"kind": "again", "workload": "w", "best_of_pool": "c", "latency_s": {"a": 2.0, "b": 3.0, "c": 1.0}},
        {"kind": "again", "workload": "w", "best_of_pool": "c", "latency_s": {"a": 2.2, "b": 3.3, "c": 1.1}},
        {
            "kind": "apart",
            "service_sms": 2,
            "part_sm_ids": [0],
            "alone_ms": [1.0, 1.1, 1.0],
            "part_filled_ms": [1.0],
            "rest_filled_ms": [9.0, 10.0],
        },
        {"kind": "error", "what": "this", "error": "that"},
    ]
    lines = report.table(rows, report.read_requests(tmp_path)).splitlines()
    assert "| w | 0 | 10.00% | 1.500 | 1.000 | 2.000 | 2.000 | 3.000 |" in lines
    assert "takes 1.000 ms, 1.000 ms while another process fills" in lines[0]
    assert lines[0].endswith("9.500 ms while that fills its own.")
    assert lines[-1] == "error: this: that"


@pytest.mark.rehearsal
@pytest.mark.tvm
def test_nothing_stays_behind_when_it_is_told_to_end(tmp_path: Path) -> None:
    """At a time when the service waits for its beginning."""
    command = [sys.executable, FOLDER / "measure.py", "--out", tmp_path, *CPU, "--time-limit", "60"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "ready.json").exists():
            time.sleep(0.05)
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert process.returncode == 1
    assert said.endswith("terminated\n")
    assert (tmp_path / "stop").exists()
    assert not (tmp_path / "latencies.log").read_text()
