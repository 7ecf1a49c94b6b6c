"""A tensor program of the user's, tuned from its file on this CPU."""

from pathlib import Path

import pytest

pytest.importorskip("tvm")

from typer.testing import CliRunner

from costmodel import tune
from costmodel.cli._app import app
from costmodel.errors import CostModelError
from costmodel.tuning import SearchSettings

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

PROGRAM = """
import tvm
from tvm import te

x = te.placeholder((64, 32), name="x")
k = te.reduce_axis((0, 32), "k")
sums = te.create_prim_func([x, te.compute((64,), lambda i: te.sum(te.exp(x[i, k]), axis=k), name="sums")])
"""


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return f"{path}:sums"


def test_a_program_is_tuned_from_its_file(place: str) -> None:
    result = tune(place, sms=1, trials=2, on="cpu", search=SearchSettings(screened=100))
    assert len(result.trials) == 2
    assert result.best.candidate.workload.is_program
    assert result.best.latency_s[0] > 0.0


def test_the_command_takes_a_program(place: str) -> None:
    done = CliRunner().invoke(app, ["tune", place, "--runner", "cpu", "--sms", "1", "--trials", "1"])
    assert done.exit_code == 0, done.output
    assert "on 1 thread" in done.output


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(CostModelError, match=r"A Python file must exist at absent\.py"):
        tune("absent.py:module", on="cpu")
