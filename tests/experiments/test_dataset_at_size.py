"""The experiment on large datasets runs through in small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rehearsal

SCRIPT = Path(__file__).parents[2] / "experiments" / "dataset_at_size" / "run.py"
SIZE = ("pandas.read_csv", *(f"dataset {command}" for command in ("validate", "build")))
WHOLE = (*SIZE, *(f"dataset {command}" for command in ("describe", "split", "diff", "export")))
EVALUATED = (*WHOLE, "evaluate consensus", "evaluate xgboost")

Ran = tuple[Path, subprocess.CompletedProcess[str]]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    options = ("--tiles", 2, "--folder", folder, "--json", folder / "result.json", *arguments)
    done = subprocess.run(
        list(map(str, [sys.executable, SCRIPT, *options])), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The folder of a run that measured two sizes, never written to, and what it printed."""
    folder = tmp_path_factory.mktemp("first")
    sizes = ("--rows", 100, 400, "--whole", 200, "--evaluated", 200, "--plot", folder / "cost.png")
    return folder, run(folder, *sizes)


def test_every_command_is_measured_beside_pandas(
    first: Ran,
) -> None:
    folder, done = first
    costs = json.loads((folder / "result.json").read_text())
    found = [(cost["what"], cost["rows"]) for cost in costs if cost["what"] != "polars.read_csv"]
    assert found == [*((what, 326) for what in EVALUATED), *((what, 652) for what in SIZE)]  # 2 % stand twice
    assert all(cost["seconds"] > 0 and cost["peak_bytes"] > 1e7 for cost in costs)
    assert "326 rows" in done.stderr
    pandas = done.stdout.splitlines()[2]
    assert pandas.split("|")[6].strip() == "1.0"
    assert (folder / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "100").exists()


def test_what_was_measured_is_not_measured_again(first: Ran, tmp_path: Path) -> None:
    """What was cut off before its last steps has to be built again for these, but is not measured again."""
    sizes = ("--rows", 100, "--whole", 200, "--evaluated", 0)
    file = tmp_path / "result.json"
    costs = json.loads((first[0] / "result.json").read_text())
    kept = costs[: [cost["what"] for cost in costs].index("dataset export")]
    file.write_text(json.dumps(kept))
    again = run(tmp_path, *sizes)
    left = json.loads(file.read_text())
    assert left[:-1] == kept
    assert (left[-1]["what"], left[-1]["rows"]) == ("dataset export", 326)
    assert "dataset export" in again.stderr
    assert "dataset validate" not in again.stderr
    assert "rows" not in run(tmp_path, *sizes).stderr
