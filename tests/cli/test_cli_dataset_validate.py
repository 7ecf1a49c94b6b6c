import json
from pathlib import Path

import pytest
from fake_caches import fake_cache, write_cache
from typer.testing import CliRunner, Result

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box


def validate(*arguments: object) -> Result:
    words = ["dataset", "validate", *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "140"})


def test_files_in_order(store: Path) -> None:
    result = validate(store)
    assert result.exit_code == 0
    assert "Nothing is wrong with them." in result.stdout
    assert "84" in result.stdout


def test_a_dataset_is_read_like_the_store_that_it_is_made_of(store: Path, built: Path) -> None:
    for path in (built, built / "measurements.parquet"):
        result = validate(path)
        assert (result.exit_code, "Nothing is wrong" in result.stdout) == (0, True)
    both = validate(store, built)
    assert both.exit_code == 0
    (note,) = [line for line in both.stdout.splitlines() if "note" in line]
    assert " 84 " in note


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    part = fake_cache("NVIDIA B")
    del part["cache"]["32,2,col,15"]
    files = [write_cache(tmp_path / "a.json", fake_cache()), write_cache(tmp_path / "b.json", part)]
    result = validate(*files)
    assert result.exit_code == 0
    assert "Files under" in result.stdout
    twins, line = [line for line in result.stdout.splitlines() if line.split()[:1] == ["warning"]]
    assert twins.split()[:5] == ["warning", "NVIDIA", "A,", "NVIDIA", "B"]
    assert line.split()[:3] == ["warning", "b.json", "11"]


def test_errors_fail_and_files_tell_all(tmp_path: Path) -> None:
    wrong = fake_cache("NVIDIA B", 2000.0)
    wrong["cache"]["32,2,col,15"]["time"] = -1.0
    files = [write_cache(tmp_path / "a.json", fake_cache()), write_cache(tmp_path / "b.json", wrong)]
    report, rejects = tmp_path / "new" / "r.json", tmp_path / "new" / "q.jsonl"
    result = validate(*files, "--json", report, "--quarantine", rejects)
    assert result.exit_code == 1
    assert "error" in result.stdout
    written = json.loads(report.read_text())
    assert [(f["path"], f["devices"], f["records"], f["ok"], f["rejected"]) for f in written["files"]] == [
        (str(files[0]), ["NVIDIA A"], 12, 10, 0),
        (str(files[1]), ["NVIDIA B"], 12, 9, 1),
    ]
    assert [(f["kind"], f["severity"]) for f in written["findings"]] == [
        ("unit", "error"),
        ("near-twins", "warning"),
        ("rejected", "warning"),
        ("repair", "note"),
        ("repair", "note"),
    ]
    assert written["findings"][0].keys() == {"kind", "severity", "concerns", "count", "message", "examples"}
    (line,) = rejects.read_text().splitlines()
    assert json.loads(line)["reason"] == "time and times must be finite and at least one nanosecond"
    assert json.loads(line)["record"]["file"] == "b.json"


def test_it_fails_if_nothing_could_enter_a_dataset(tmp_path: Path) -> None:
    wrong = fake_cache()
    wrong["cache"] = {"32,2,col,15": wrong["cache"]["32,2,col,15"] | {"time": -1.0}}
    rejects = tmp_path / "q.jsonl"
    result = validate(write_cache(tmp_path / "a.json", wrong), "--quarantine", rejects)
    assert result.exit_code == 2
    assert "at least one measurement, but 1 of 1 records were rejected" in " ".join(result.stderr.split())
    assert len(rejects.read_text().splitlines()) == 1


def test_no_rejects_leave_an_empty_file(store: Path, tmp_path: Path) -> None:
    rejects = tmp_path / "q.jsonl"
    rejects.write_text("of an earlier run")
    assert validate(store, "--quarantine", rejects).exit_code == 0
    assert rejects.read_bytes() == b""


@pytest.mark.parametrize("option", ["--quarantine", "--json"])
def test_what_cannot_be_read_or_written(store: Path, tmp_path: Path, option: str) -> None:
    missing = validate(tmp_path / "nowhere.jsonl")
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)
    unwritable = validate(store, option, store / "under-a-file")
    assert (unwritable.exit_code, unwritable.stdout) == (2, "")
    assert "is a file, not a folder" in unwritable.stderr
