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


@pytest.mark.parametrize("name", ["H100", "h100", "NVIDIA H100"])
def test_a_kernel_is_checked_for_the_h100_that_predictions_know(nvrtc: None, name: str) -> None:
    for named in (name, "H100 PCIe"):
        result = costmodel("check", OWN / "vector_add", "--device", named, "--configs", 1)
        assert result.exit_code == 0, result.output


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


PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

x = torch.empty(5000, device="cuda")
copy[(5,)](x, torch.empty_like(x), 5000, BLOCK=1024)
"""
LOOPED = """
import torch, triton, triton.language as tl

@triton.jit
def row_sums(x, sizes, y, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, tl.load(sizes + tl.program_id(0)), BLOCK):
        total += tl.load(x + at + tl.arange(0, BLOCK))
    tl.store(y + tl.program_id(0), tl.sum(total))

x = torch.empty(5000, device="cuda")
sizes = torch.empty(5, device="cuda", dtype=torch.int32)
row_sums[lambda meta: (5,)](x, sizes, torch.empty_like(x), BLOCK=1024)
"""


@pytest.mark.triton
def test_tune_says_the_same_and_that_nothing_was_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    result = CliRunner().invoke(app, ["tune", str(file), "--sms", "16,32"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "green_context/16" in result.stdout
    assert "green_context/32" in result.stdout
    assert "Nothing was timed" in result.stdout
    for wrong in (
        ["--runner", "cpu"],
        ["--replay", "sm-budgets"],
        ["--report", "page.html"],
        ["--experiment", "mine"],
        ["--seed", "1"],
        ["--screened", "10"],
        ["--runner", "cuda", "--device", "H200"],
    ):
        refused = CliRunner().invoke(app, ["tune", str(file), *wrong])
        assert refused.exit_code != 0
        assert f"{wrong[-2]} must be given of a family or workload" in str(refused.exception) + refused.output
    refused = CliRunner().invoke(app, ["tune", "matmul-m64-n64-k64", "--time-limit", "3"])
    assert "--time-limit must be given of a program" in str(refused.exception) + refused.output


@pytest.mark.triton
def test_check_orders_configs_of_the_kernels_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file, found = tmp_path / "program.py", tmp_path / "found.json"
    file.write_text(PROGRAM)
    result = costmodel("check", file, "--sms", 16, "--json", found)
    assert result.exit_code == 0, result.output
    assert "copy(x=float32[5000], y=float32[5000], n=5000, BLOCK=1024)" in result.stdout
    assert "NVIDIA H100 80GB HBM3/green_context/16" in result.stdout
    assert "num_warps=4 num_stages=3 (as launched)" in result.stdout
    (kernel,) = json.loads(found.read_text())
    assert kernel["name"] == "copy"
    assert len(kernel["expected"]) == len(kernel["configs"]) > 2
    assert all(each["low"] < each["expected"] < each["high"] for each in kernel["expected"])
    assert f" of {len(kernel['configs'])} configs" in result.stdout
    assert "was not measured" not in result.stdout
    assert "Data in memory decide" not in result.stdout
    looped = tmp_path / "looped.py"
    looped.write_text(LOOPED)
    assert "Data in memory decide how often its loops turn" in costmodel("check", looped).stdout
    other = costmodel("check", file, "--device", "L40S")
    assert "How well it orders them on the NVIDIA L40S was not measured" in " ".join(other.stdout.split())
    broken = tmp_path / "broken.py"
    broken.write_text(PROGRAM.replace("tl.arange", "tl.arrange"))
    unread = costmodel("check", broken)
    assert "configs were not read: " in unread.stdout
    assert "the fastest first" not in unread.stdout
    for option in (["--dims", "n=64"], ["--configs", 3], ["--seed", 1]):
        refused = costmodel("check", file, *option)
        assert refused.exit_code != 0
        assert f"{option[0]} must be given of a family or workload" in str(refused.exception) + refused.output
