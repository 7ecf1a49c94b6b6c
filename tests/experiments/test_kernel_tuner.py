"""The experiment on sessions of Kernel Tuner runs through in small, and counts as it says."""

import gzip
import importlib
import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "kernel_tuner"
PARAMETERS = {"block_size_x": [16, 32, 64, 128], "tile": [1, 2, 4, 8], "unroll": [0, 1, 2]}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "report", raising=False)
    yield importlib.import_module("report")
    monkeypatch.delitem(sys.modules, "report")


def test_evaluations_are_counted_until_near_the_best(report) -> None:
    ratios = {"ours": [[1.2, 1.04, 1.0], [1.0]], "slow": [[math.inf] * 19 + [1.05], [2.0] * 20]}
    rows = [
        {"kernel": "k", "device": "d", "method": name, "ratios": each}
        for name, found in ratios.items()
        for each in found
    ]
    table = report.summary(rows, [*ratios], 20)
    ours, slow = table["pooled"]["ours"], table["pooled"]["slow"]
    assert [ours[f"5 %: {what}"] for what in ("median", "mean", "p90", "success")] == [1, 1.5, 2, 1.0]
    assert [slow[f"5 %: {what}"] for what in ("median", "mean", "p90", "success")] == [20, 20.0, None, 0.5]
    assert (slow["1 %: median"], slow["failures"]) == (None, 9.5)
    goal = table["goal"]
    assert (goal["best strategy"], goal["ours"], goal["its median"], goal["reached"]) == ("slow", 1, 20, True)
    assert "| k, d | 1 | 20 |" in report.markdown(table, 20)
    assert report.best_so_far([2.0, math.inf, 1.0], 5) == [0.5, 0.5, 1.0, 1.0, 1.0]


def test_sessions_are_simulated_and_kept(tmp_path: Path) -> None:
    pytest.importorskip("kernel_tuner.interface")  # a folder of experiments/ has the package's name
    data = tmp_path / "data" / "suite" / "stencil"
    data.mkdir(parents=True)
    for device, twist in {
        "NVIDIA RTX A4000": 0.2,
        "NVIDIA A100-SXM4-80GB": 0.3,
        "AMD Radeon PRO W7800": 0.4,
    }.items():
        (data / f"{device.split()[-1]}.json.gz").write_bytes(
            gzip.compress(json.dumps(cache(device, twist)).encode())
        )
    command = [
        sys.executable,
        FOLDER / "run.py",
        tmp_path / "data",
        "--out",
        tmp_path / "out",
        "--seeds",
        "2",
    ]
    command += ["--evaluations", "40", "--strategies", "genetic_algorithm", "brute_force"]
    command += ["--json", tmp_path / "r.json", "--plot", tmp_path / "p.png"]
    made = []
    for _ in range(2):  # the second finds all made
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.append({path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()})
    assert made[0] == made[1]
    table = json.loads((tmp_path / "r.json").read_text())
    sessions = {name: figures["sessions"] for name, figures in table["pooled"].items()}
    assert sessions == {"ours": 6, "mean over the other GPUs": 3, "genetic_algorithm": 6, "brute_force": 3}
    assert table["pooled"]["ours"]["5 %: median"] == 1
    assert table["pooled"]["brute_force"]["5 %: median"] == 19  # as the cache lists them
    assert table["pooled"]["brute_force"]["failures"] == 1
    assert (tmp_path / "p.png").stat().st_size


def cache(device: str, twist: float) -> dict:
    """All configs of a kernel whose best one is the same everywhere; the first of the list fails."""
    entries = {}
    for values in product(*PARAMETERS.values()):
        config = dict(zip(PARAMETERS, values, strict=True))
        steps = abs(config["block_size_x"].bit_length() - 6) + abs(config["tile"].bit_length() - 3)
        mean = 1.0 + 0.5 * steps + twist * config["unroll"]
        failed = values == (16, 1, 0)
        entries[",".join(map(str, values))] = {
            **config,
            "time": "RuntimeFailedConfig" if failed else mean,
            **({} if failed else {"times": [mean]}),
        }
    return {
        "device_name": device,
        "kernel_name": "stencil",
        "problem_size": [64, 64],
        "tune_params_keys": list(PARAMETERS),
        "tune_params": PARAMETERS,
        "cache": entries,
    }
