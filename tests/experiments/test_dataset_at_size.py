"""The experiment on large datasets runs through in small."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "experiments" / "dataset_at_size" / "run.py"


def test_every_command_is_measured_beside_pandas(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--rows", "100", "--tiles", "2", "--json", tmp_path / "result.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    costs = json.loads((tmp_path / "result.json").read_text())
    commands = ["validate", "build", "describe", "split", "diff", "export"]
    found = [cost["what"] for cost in costs if cost["what"] != "polars.read_csv"]  # where it is installed
    assert found == ["pandas.read_csv", *(f"dataset {command}" for command in commands)]
    assert all(cost["seconds"] > 0 and cost["peak_bytes"] > 1e7 for cost in costs)
    assert "326 rows" in done.stderr  # 8 devices, 40 configs, 2 % of them twice
    pandas, *_, export = done.stdout.splitlines()[2:]
    assert pandas.split("|")[4].strip() == "1.0"
    assert float(export.split("|")[4]) > 0
