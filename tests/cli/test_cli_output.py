import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from costmodel.cli._output import progress, write_json
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
