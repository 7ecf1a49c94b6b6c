import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from costmodel.cli._output import ProgressLog, progress, write_json
from costmodel.errors import CostModelError


@dataclass
class Result:
    path: Path
    values: object


def test_numbers_of_every_kind(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.json"
    values = [
        np.float64("nan"),
        np.float32(1.5),
        np.int64(3),
        float("inf"),
        np.array([1.0, -np.inf]),
        (1, "a"),
    ]
    write_json(file, Result(Path("x"), values))
    assert json.loads(file.read_text()) == {
        "path": "x",
        "values": [None, 1.5, 3, None, [1.0, None], [1, "a"]],
    }
    assert [entry.name for entry in file.parent.iterdir()] == ["a.json"]


def test_no_path_writes_nothing() -> None:
    write_json(None, object())


def test_an_object_without_json_form_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="JSON has no form"):
        write_json(tmp_path / "a.json", object())
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match="Cannot write"):
        write_json(tmp_path / "file" / "a.json", 1)


def test_progress_is_not_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as shown:
        shown.advance(shown.add_task("working", total=1))
    assert capsys.readouterr().out == ""


def test_progress_goes_to_a_log_at_the_rate_of_late(capsys, monkeypatch) -> None:
    now = iter([0.0, *[0.0] * 100, 61.0, 61.0, *[62.0] * 5, 121.0, 121.0])
    monkeypatch.setattr("costmodel.cli._output.time.monotonic", lambda: next(now))
    log = ProgressLog("measured", 1000)
    for _ in range(107):
        log.advance()
    first, second = capsys.readouterr().err.splitlines()
    assert first == "measured 101 of about 1,000, 1.7/s, 9 min left"
    assert second == "measured 107 of about 1,000, 0.1/s, 2 h 29 min left"
