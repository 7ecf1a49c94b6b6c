"""The experiment on screening runs through in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "screening" / "run.py"


@pytest.mark.tvm
@pytest.mark.rehearsal
def test_both_ways_are_timed_on_the_same_configs(tmp_path: Path) -> None:
    options = ["--workload", "matmul-m64-n64-k64", "--configs", "200", "--lowered", "2"]
    command = [sys.executable, SCRIPT, *options, "--json", tmp_path / "result.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "result.json").read_text())
    assert (result["workload"], result["configs"], result["lowered"]) == ("matmul-m64-n64-k64", 200, 2)
    assert all(result[name] > 0 for name in ("draw_s", "features_s", "per_store_s"))
    assert "| matmul-m64-n64-k64 | 200 |" in done.stdout
