import json
from pathlib import Path

import pytest
from fake_records import fake_measurement
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.records import Outcome, RecordStore, read_records

pytestmark = pytest.mark.white_box

OK = fake_measurement(tile=1)
FAILED = fake_measurement(tile=4, outcome=Outcome.LAUNCH_ERROR)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with RecordStore(tmp_path / "a.jsonl") as store:
        store.append([OK, FAILED])
    return tmp_path / "a.jsonl"


def forget(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["records", "forget", *map(str, arguments)], env={"COLUMNS": "160"})


def test_measurements_are_forgotten_and_told(path: Path, tmp_path: Path) -> None:
    dry = forget(path, "--outcome", "launch_error", "--dry-run")
    assert "1 measurements would be forgotten, 1 would stay." in dry.stdout
    assert len(list(read_records(path))) == 2

    told = tmp_path / "told.json"
    result = forget(path, "--config", "tile=4", "--outcome", "launch_error", "--json", told)
    assert (result.exit_code, list(read_records(path))) == (0, [OK])
    (row,) = [line.split() for line in result.stdout.splitlines() if OK.candidate.workload.kind in line]
    assert row == [OK.candidate.workload.kind, "launch_error", "1"]
    assert json.loads(told.read_text()) == {
        "forgotten": 1,
        "kept": 1,
        "moved_to": str(path.with_suffix(".forgotten.jsonl")),
    }
    assert "No measurement is so; all 1 stay." in forget(path, "--older-than", 30).stdout


def test_criteria_are_checked(path: Path) -> None:
    assert "must be NAME=VALUE, but got 'tile'" in forget(path, "--config", "tile").stderr
    words = ["records", "export", str(path), str(path.with_name("bundle.jsonl")), "--software", "driver"]
    assert "Invalid value for --software" in CliRunner().invoke(app, words).stderr
    assert "must be from 0 to 36,500" in forget(path, "--older-than", "inf").stderr
    nothing = forget(path)
    assert (nothing.exit_code, "no criterion is given" in nothing.stderr) == (2, True)
