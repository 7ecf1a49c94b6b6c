"""The experiment on columns of a step, at a reduced size."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LITTLE = ["--dataset", "datasets/h100-sm-budgets", "--sms", "8", "--folds", "2"]


def found(name: str, out: Path, *options: str) -> Any:
    """What an experiment writes, run on one SM budget of the smallest campaign."""
    command = [sys.executable, EXPERIMENTS / name / "run.py", *LITTLE, "--json", out, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXPERIMENTS.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_columns_of_a_step_are_hidden_from_a_learner(tmp_path: Path) -> None:
    rows = {row["model"]: row for row in found("steps", tmp_path / "r.json", "--learner", "ridge")}
    assert list(rows) == ["random", "ridge", "ridge, steps hidden"]
    seen, hidden = rows["ridge"], rows["ridge, steps hidden"]
    assert seen["latency_error"] != hidden["latency_error"]
    assert seen["difference"] == pytest.approx(seen["score_at_1"] - hidden["score_at_1"])
    assert seen["low"] <= seen["difference"] <= seen["high"]
