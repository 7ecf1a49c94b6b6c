"""The experiment on columns of a step, at a reduced size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LITTLE = ["--dataset", "datasets/h100-sm-budgets", "--sms", "8", "--folds", "2", "--learner", "ridge"]


def test_columns_of_a_step_are_hidden_from_a_learner(tmp_path: Path) -> None:
    """On one SM budget of the smallest campaign."""
    out = tmp_path / "r.json"
    command = [sys.executable, "experiments/steps/run.py", *LITTLE, "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    rows = {row["model"]: row for row in json.loads(out.read_text())}
    assert list(rows) == ["random", "ridge", "ridge, steps hidden"]
    seen, hidden = rows["ridge"], rows["ridge, steps hidden"]
    assert seen["latency_error"] != hidden["latency_error"]
    assert seen["difference"] == pytest.approx(seen["score_at_1"] - hidden["score_at_1"])
    assert seen["low"] <= seen["difference"] <= seen["high"]
