"""The experiment's kernels against PyTorch, in Triton's interpreter, and what becomes of what is measured."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from experiment_folder import found_beside

FOLDER = Path(__file__).parents[2] / "experiments" / "triton_autotune"
MODULES = ("run", "options")
SMALL = {
    "matmul": (64, 96, 80),
    "attention": (2, 96),
    "layer_norm": (5, 600),
    "softmax": (5, 600),
    "batched_matmul": (3, 64, 48, 40),
    "bias_gelu": (7, 600),
}
SIZE = 24  # configs of a space
PROGRAM = """
import json, sys
import torch
from cases import CASES

found = {}
for name, shape in json.loads(sys.argv[1]).items():
    case = CASES[name]
    torch.manual_seed(0)
    operands = case.operands(tuple(shape), "cpu")
    *inputs, result = [each for each in operands if isinstance(each, torch.Tensor)]
    expected = case.expected(*(each.float() for each in inputs))
    space = case.configs(int(sys.argv[2]))
    errors = []
    for config in space[::8]:
        result.fill_(6e4)
        case.kernel[lambda meta: case.grid(shape, meta)](*operands, **config.kwargs)
        errors.append(float((result.float() - expected).norm() / expected.norm()))
    found[name] = {
        "errors": errors,
        "list": list(map(str, case.configs(len(case.listed)))),
        "space": list(map(str, space)),
        "space again": list(map(str, case.configs(int(sys.argv[2])))),
    }
print(json.dumps(found))
"""


@pytest.fixture
def run() -> Iterator[Any]:
    with found_beside(FOLDER, MODULES):
        yield import_module("run")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What a process finds in Triton's interpreter, which is chosen before Triton is imported."""
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(SMALL), str(SIZE)],
        cwd=FOLDER,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.triton
@pytest.mark.parametrize("name", SMALL)
def test_kernels_are_right_with_any_config(found: dict[str, Any], name: str) -> None:
    assert len(found[name]["errors"]) == 3
    assert max(found[name]["errors"]) < 1e-3


@pytest.mark.triton
@pytest.mark.parametrize("name", SMALL)
def test_a_space_holds_the_list_and_no_config_twice(found: dict[str, Any], name: str) -> None:
    space = found[name]["space"]
    assert space[: len(found[name]["list"])] == found[name]["list"]
    assert len(set(space)) == SIZE
    assert space == found[name]["space again"]


def answer(tuner: str, first_s: float, us: float, error: float = 1e-4) -> dict[str, Any]:
    found = {"first_s": first_s, "timed": 8, "us": us, "best_us": 10.0, "error": error}
    return {"kernel": "softmax", "what": "answer", "tuner": tuner, **found}


def test_a_summary_has_medians_over_cells_and_counts_wrong_results(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"device": "X1", "triton": "3.9.0", "part_sms": 32, "compile_list_s": 2.0, "compile_space_s": 5.0},
        *(answer("list", *of) for of in ((0.1, 10.0), (0.3, 12.0), (0.2, 11.0, 0.5))),
        {"what": "cold", "tuner": "list", "first_s": 3.0},
    ]
    found = run.summary(rows)
    assert found["places"] == {"X1": ["3.9.0", 32]}
    assert found["tuners"]["list"] == {
        "cells": 3,
        "warm_ms": 200.0,
        "cold_s": 3.0,
        "within_5_percent": 1,
        "over_best": 1.1,
        "over_best_worst": 1.2,
        "timed": 8,
        "wrong": 1,
    }
    assert found["tuners"]["model"]["warm_ms"] is None
    run.print_table(found)
    assert "triton.autotune, its list" in capsys.readouterr().out


def test_a_kernel_whose_process_ends_costs_itself_alone(run: Any) -> None:
    program = (
        "import sys; sys.stdin.readline(); print('{}'); print('done', flush=True); sys.stdin.readline(); 1/0"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert [json.loads(line) for line in run.turn_of(process, 1.0)] == [{}]
    assert list(run.turn_of(process, 1.0)) == []
    process.wait()
    assert list(run.turn_of(process, 1.0)) == []
    process.communicate()
