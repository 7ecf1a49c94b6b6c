"""The replayed searches run through on a landscape, in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from costmodel.dataset import CardHeader, build_dataset
from costmodel.records import RecordStore
from costmodel.testing import LANDSCAPE_WORKLOADS, gpu_landscape

SCRIPT = Path(__file__).parents[2] / "experiments" / "search_on_replay" / "run.py"
HEADER = CardHeader("Landscape", "For a test.", "None.", "None.", "None", "None")
ROWS = {"ours, kernel-ridge", "ours, nothing known", "Optuna TPE", "genetic search", "random order"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landscape")
    data = gpu_landscape(workloads=LANDSCAPE_WORKLOADS[:4], configs_per_workload=16, sms=(8, 32, 132))
    with RecordStore(folder / "records.jsonl") as store:
        store.append(data.to_measurements())
    build_dataset([folder / "records.jsonl"], folder / "built", header=HEADER)
    return folder / "built"


def test_all_searches_are_replayed_on_held_out_workloads(dataset, tmp_path):
    options = ["--folds", "2", "--seeds", "2", "--cap", "12", "--learner", "kernel-ridge", "--processes", "1"]
    places = ["--dataset", dataset, "--out", tmp_path, "--json", tmp_path / "result.json"]
    command = [sys.executable, SCRIPT, *options, "--no-tvm", "--no-gp", *places]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "result.json").read_text())
    assert set(table) == ROWS
    assert {row["searches"] for row in table.values()} == {8}
    assert "| ours, kernel-ridge | 8 |" in done.stdout
    rows = [row for file in sorted(tmp_path.glob("task-*.json")) for row in json.loads(file.read_text())]
    assert {row["fold"] for row in rows} == {0, 1}
    for row in rows:
        curve = row["best_so_far"]
        assert curve == sorted(curve)
        assert len(curve) == 12 or curve[-1] == 1.0
        assert row["n_5"] == next((i for i, score in enumerate(curve, 1) if score * 1.05 >= 1.0), None)
