import json
import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import called_apart
import foreign_programs
import tvm

from costmodel.errors import CostModelError
from costmodel.kernels.metaschedule import _apart
from costmodel.kernels.metaschedule._apart import ApartError, call_apart
from costmodel.kernels.metaschedule.programs._source import load_program

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]


def nested(depth: int) -> list:
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


def test_values_come_back_as_what_the_function_returns() -> None:
    assert call_apart(called_apart.add, (1, 2), 3) == (1, 2, 3)


def test_one_process_answers_all_calls() -> None:
    process = call_apart(called_apart.process_id)
    assert process not in (os.getpid(), None)
    assert call_apart(called_apart.process_id) == process


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (called_apart.end_by, (signal.SIGSEGV,), r"^TVM ended its process \(SIGSEGV\)$"),
        (called_apart.end_by, (signal.SIGKILL,), "something else killed .* where memory is short"),
        (called_apart.fail, (), "^TVM raises KeyError: 'first.nlast'$"),
        (called_apart.add, (nested(5000), 1), "no JSON of moderate depth"),
    ],
)
def test_how_a_call_fails_is_told_and_the_next_is_answered(function, arguments, message: str) -> None:
    with pytest.raises(ApartError, match=message):
        call_apart(function, *arguments)
    assert call_apart(called_apart.add, (), 1) == (1,)


def test_a_call_that_takes_too_long_is_no_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    process = call_apart(called_apart.process_id)
    monkeypatch.setattr(_apart, "_MOST_WAIT_S", -_apart._MOST_S)
    with pytest.raises(ApartError, match="TVM takes more than 20 s"):
        call_apart(called_apart.sleep, 600.0)
    monkeypatch.undo()
    assert call_apart(called_apart.process_id) != process


def test_processor_time_is_limited_by_the_call() -> None:
    left = [call_apart(called_apart.processor_time_left) for _ in range(2)]
    assert all(_apart._MOST_S - 2 <= each <= _apart._MOST_S + 1 for each in left)
    with pytest.raises(ApartError, match="TVM takes more than 20 s"):
        call_apart(called_apart.end_by, signal.SIGXCPU)


def test_a_kill_of_the_moment_costs_nothing(tmp_path: Path) -> None:
    assert call_apart(called_apart.be_killed_once, str(tmp_path / "once")) == str(tmp_path / "once")


def test_what_the_function_refuses_is_refused_here() -> None:
    with pytest.raises(CostModelError, match=r"^It must be so\. Do it\.$"):
        call_apart(called_apart.refuse)


@pytest.mark.parametrize(
    ("kind", "alter"),
    [
        ("ffi.Array", lambda node, at: node["data"].insert(0, at)),  # it holds itself
        ("tirx.IterVar", lambda node, at: node["data"].update(iter_type=-1)),  # which its space aborts on
    ],
)
def test_a_program_that_ends_tvm_is_refused(tmp_path: Path, kind: str, alter) -> None:
    document = json.loads(tvm.ir.save_json(foreign_programs.layer_norm()))
    at, node = next((at, node) for at, node in enumerate(document["nodes"]) if node["type"] == kind)
    alter(node, at)
    path = tmp_path / "program.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CostModelError, match=r"must be a program .*: TVM ended its process \(SIG.*Write it"):
        load_program(str(path))
