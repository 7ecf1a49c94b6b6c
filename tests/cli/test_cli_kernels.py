import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

OWN = Path(__file__).parents[1] / "kernels" / "cuda" / "own"


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["kernels", *map(str, arguments)], env={"COLUMNS": "160"})


@pytest.fixture
def nvrtc() -> None:
    """Skip where NVRTC is not installed."""
    bindings = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        bindings.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")


def test_list_shows_what_ships_and_what_is_given(tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    result = costmodel("list", OWN / "reduction", OWN / "vector_add", "--json", file)
    assert result.exit_code == 0, result.output
    assert "metaschedule" in result.stdout
    entries = {entry["file"]: entry for entry in json.loads(file.read_text()) if entry["source"] == "cuda"}
    mine = entries[str(OWN / "reduction" / "reduction.json")]
    assert (mine["name"], mine["workload"], mine["configs"]) == ("reduction", "cuda.reduction-n8000000", 42)
    line = next(line for line in result.stdout.splitlines() if "cuda.vector_add" in line)
    assert line.split() == ["cuda", "vector_add", "15", "cuda.vector_add-x1000000"]
    assert any(Path(file).parent.name == "transpose" for file in entries)


@pytest.mark.usefixtures("nvrtc")
def test_check_counts_compiles_and_writes_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    result = costmodel("check", OWN / "reduction", "--dims", "n=4096", "--configs", 3, "--json", file)
    assert result.exit_code == 0, result.output
    assert "cuda.reduction-n4096: 42 configs" in result.stdout
    assert "3 of 3 compiled for sm_90" in result.stdout
    assert "Note: There is no reference.py" in result.stdout
    written = json.loads(file.read_text())
    assert [each["outcome"] for each in written["compiled"]["configs"]] == ["ok"] * 3
    assert written["compiled"]["workload"]["dims"] == {"n": 4096}
    assert written["measured"] == []


@pytest.mark.usefixtures("nvrtc")
def test_check_says_what_fails_and_why(tmp_path: Path) -> None:
    for name in ("reduction.cu", "reduction.json"):
        text = (OWN / "reduction" / name).read_text()
        (tmp_path / name).write_text(text.replace("sum += values[i]", "sum += valuez[i]"))
    result = costmodel("check", tmp_path, "--configs", 2, "--architecture", "sm_80")
    assert result.exit_code == 1
    assert "0 of 2 compiled for sm_80" in result.stdout
    assert 'compile_error: reduction.cu(6): error: identifier "valuez" is undefined' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dims", "m=3"], "must be called with sizes of its dims n, but got 'm'"),
        (["--dims", "n"], "It must be sizes such as m=64,n=64, but got n."),
        (["--configs", 0], "a whole number from 1"),
    ],
)
def test_wrong_input_is_told(arguments: list[object], message: str) -> None:
    result = costmodel("check", OWN / "reduction", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
