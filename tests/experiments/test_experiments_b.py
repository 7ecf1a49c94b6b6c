"""The experiments for a GPU run through on a CPU, in small, and their tables say what was planted."""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from experiment_folder import without_tensor_intrinsics

pytest.importorskip("tvm")

from costmodel.kernels import sample_candidates
from costmodel.records import Device, Measurement, Outcome, Platform, RecordStore, Workload

pytestmark = pytest.mark.tvm

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MATMUL = "matmul-m16-n16-k16"


def run(folder: Path, name: str, *arguments: object) -> tuple[Any, list[str]]:
    """What an experiment writes to its file, and the lines that it prints."""
    result = folder / "result.json"
    command = [sys.executable, EXPERIMENTS / name / "run.py", "--runner", "cpu", "--json", result, *arguments]
    done = subprocess.run(
        list(map(str, command)),
        env=without_tensor_intrinsics(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(result.read_text()), done.stdout.splitlines()


def module(name: str) -> ModuleType:
    """The script of an experiment as a module."""
    spec = spec_from_file_location(f"experiment_{name}", EXPERIMENTS / name / "run.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.rehearsal
def test_both_pipelines_measure_all_candidates(tmp_path: Path) -> None:
    found, lines = run(tmp_path, "pipeline_throughput", "--workload", MATMUL, "--kernels", 2)
    pipelines = found["pipelines"]
    stock = ["stock, one batch", "stock, batches of 64"]
    assert list(pipelines) == ["ours, workers running", "ours, with start-up", *stock]
    ids = [sorted(pipeline["latency_s"]) for pipeline in pipelines.values()]
    assert ids[0] == ids[1] == ids[2]
    assert len(ids[0]) == 2
    assert all(p["per_minute"] == pytest.approx(120 / p["seconds"]) for p in pipelines.values())
    assert [cells(line)[:3] for line in lines[4:6]] == [[name, "2", "2"] for name in stock]


def test_latencies_are_compared_where_both_ran_and_are_long_enough() -> None:
    row = module("pipeline_throughput").agreement(
        "x",
        {"latency_s": {"a": 1.02, "b": 0.98, "c": 1.1, "short": 0.01, "ours": 1.0}},
        {"latency_s": {"a": 1.0, "b": 1.0, "c": 1.0, "short": 1.0, "stock": 1.0}},
        shortest_s=0.5,
    )
    assert cells(row) == ["x", "3", "2.00%", "8.40%", "1.0200"]


@pytest.mark.rehearsal
def test_co_run_measures_each_way(tmp_path: Path) -> None:
    arguments = ["--draw", "--workload", MATMUL, "--kernels", 3, "--sms", 1, "--partitions", 1]
    found, lines = run(tmp_path, "co_run", *arguments)
    ways = found["workloads"][MATMUL]
    assert list(ways) == ["alone", "alone again (A/A)", "1 partitions"]
    assert all(len(way["latency_s"][0]) == 3 and not way["errors"] for way in ways.values())
    assert [cells(line)[:3] for line in lines[2:]] == [[way, "3", "0"] for way in list(ways)[1:]]


def test_co_run_row_says_what_was_planted() -> None:
    """Of the first workload, 10 % slower, the best two change places: one pair of six, and the winner is
    the second best, at half the speed of the best.
    """
    alone = {"seconds": 4.0, "latency_s": [[1.0, 2.0, 4.0, 8.0, None]]}
    first = {"seconds": 1.0, "latency_s": [[2.2, 1.1, 4.4, 8.8, 1.0]]}
    second = {"seconds": 1.0, "latency_s": [[1.0, 2.0, 4.0, None, 1.0]]}
    row = module("co_run").row("x", [(alone, first), (alone, second)])
    assert cells(row) == [
        *("x", "7", "1", "4.00"),
        *("10.00%", "75.00%", "120.00%"),
        *("0.833", "0.667", "0.750", "0.500"),
    ]


@pytest.mark.rehearsal
def test_stock_search_is_compared_with_a_campaign(tmp_path: Path) -> None:
    platform = Platform(Device("A CPU", "cpu", "x86_64", sms=2, clock_mhz=1000.0), "threads", 2, 2)
    with RecordStore(tmp_path / "campaign" / "measurements.jsonl") as store:
        store.append(
            [
                Measurement(
                    candidate=candidate,
                    platform=platform,
                    outcome=Outcome.OK,
                    latencies_s=(1e-6,),
                    measured_at="2026-01-01T00:00:00",
                )
                for candidate in sample_candidates(Workload.parse(MATMUL), "cpu", 2, 0)
            ]
        )
    arguments = ["--data", store.path.parent, "--trials", 8, "--population", 16, "--generations", 1]
    ((row,), lines) = run(tmp_path, "stock_comparison", *arguments)
    assert (row["workload"], row["trials"], row["failed"]) == (MATMUL, 8, 0)
    assert (len(row["stock_s"]), len(row["dataset_s"])) == (8, 2)
    assert row["stock_to_dataset"] == pytest.approx(min(row["stock_s"]) / min(row["dataset_s"]))
    assert cells(lines[2])[:2] == [MATMUL, "8"]
    ((again,), _) = run(tmp_path, "stock_comparison", *arguments[:2], "--trials", 1, "--again")
    assert (again["trials"], again["stock"]) == (8, row["stock"])
    assert again["stock_to_dataset"] == pytest.approx(min(again["stock_s"]) / min(again["dataset_s"]))
    assert again["stock_s"] != row["stock_s"]
