"""Processes that tune Triton kernels into one store: killed ones, and several at once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from costmodel.records import read_records

pytestmark = pytest.mark.triton

CONFIGS = 12
# Tunes one kernel; arguments: the store, and how many configs are timed before the process kills itself, or
# timing a config fails hard. Prints how many it timed, and the block of the best.
PROGRAM = """
import os, signal, sys, time
import torch, triton
import triton.language as tl
from costmodel.integrations.triton import autotune

store, fatal, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
timed, now = [], {}

def hook(arguments, reset_only=False):
    now.update(arguments)

def bench(kernel_call, quantiles):
    if len(timed) == fatal:
        os.kill(os.getpid(), signal.SIGKILL) if how == "killed" else os.abort()
    kernel_call()
    timed.append(1)
    return [abs(now["BLOCK"] - 64) + now["num_warps"]] * 3

@autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (16, 32, 64, 128) for w in (1, 2, 4)],
    ["n"], do_bench=bench, pre_hook=hook, store=store,
)
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)

print("ready", flush=True)
sys.stdin.readline()
double[(1,)](torch.ones(16), 16)
print(len(timed), double.best_config.kwargs["BLOCK"], double.best_config.num_warps)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The interpreter reads the source of a kernel from its file."""
    path = tmp_path / "tunes.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, store: Path, fatal: int = -1, how: str = "killed") -> "subprocess.Popen[str]":
    """Start a process, and wait until it has imported what it needs."""
    process = subprocess.Popen(
        [sys.executable, program, store, str(fatal), how],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: "subprocess.Popen[str]") -> tuple[int, list[int]]:
    """Let a process tune; its exit code and what it printed."""
    out, _ = process.communicate("go\n")
    return process.returncode, [int(word) for word in out.split()]


def test_a_tuning_that_was_cut_off_goes_on_where_it_was(program: Path, tmp_path: Path) -> None:
    store = tmp_path / "timings.jsonl"
    for how, code, kept in (("killed", signal.SIGKILL, 3), ("crashed", signal.SIGABRT, 6)):
        assert finish(start(program, store, 3, how)) == (-code, [])
        assert len(list(read_records(store))) == kept
    with store.open("ab") as file:
        file.write(b'{"crc32":"0f1e2d3c","record":{"candidate":{"workl')

    assert finish(start(program, store)) == (0, [CONFIGS - 6, 64, 1])
    assert len(list(read_records(store))) == CONFIGS
    assert store.with_name("timings.jsonl.torn").read_bytes().startswith(b'{"crc32":"0f1e2d3c"')


@pytest.mark.parametrize("name", ["timings.jsonl", "timings.db"])
def test_of_processes_at_once_one_times_and_the_others_take_it(
    program: Path, tmp_path: Path, name: str
) -> None:
    store = tmp_path / name
    processes = [start(program, store) for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()

    answers = [finish(process) for process in processes]
    assert sorted(answers) == [(0, [0, 64, 1])] * 2 + [(0, [CONFIGS, 64, 1])]
    measured = list(read_records(store))
    assert len(measured) == len({each.key for each in measured}) == CONFIGS
