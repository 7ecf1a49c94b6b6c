"""The drop-in makes its own configs of a kernel that comes without a list.

Triton's compiler is real, for a GPU that is not there; launching is made up.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch
import triton
import triton.language as tl

from costmodel.errors import CostModelError
from costmodel.integrations.triton import Autotuner, autotune
from costmodel.integrations.triton import _proposing as proposing
from costmodel.records import find_device, read_records
from costmodel.records._platform import Device, Platform, part_of

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

H100 = find_device("NVIDIA H100 80GB HBM3")
ROWS, WIDTH = 256, 200


@triton.jit
def centre(x, y, n, scale, BLOCK: tl.constexpr, ROUND: tl.constexpr = 0):  # noqa: PLR0917
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0)
    values = tl.where(at < n, values - tl.sum(values, 0) / n, 0.0)
    tl.store(y + row * n + at, values * scale, mask=at < n)


class Launches:
    """What stands behind a kernel: notes launches; the fewest warps take the least time."""

    def __init__(self) -> None:
        self.launched: list[dict[str, Any]] = []

    def run(self, *_: Any, warmup: bool = False, **told: Any) -> None:
        if not warmup:
            self.launched.append(told)

    def bench(self, call: Any, quantiles: tuple[float, ...]) -> list[float]:
        call()
        return [1.0 + self.launched[-1]["num_warps"]] * len(quantiles)


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Launches()


def kernel(launches: Launches, store: Path, **settings: Any) -> Autotuner:
    settings = {"platform": part_of(H100, 32), "compile_workers": 0, "configs": "auto", **settings}
    made = autotune(key=["n"], store=store, do_bench=launches.bench, **settings)(centre)
    made.fn = launches
    return made


def call(made: Autotuner, width: int = WIDTH, **told: Any) -> Any:
    x, y = (torch.zeros(ROWS, width) for _ in range(2))
    made.run(x, y, width, 2.0, grid=(ROWS,), **told)
    return made.best_config


def test_configs_are_made_and_timed(launches: Launches, tmp_path: Path) -> None:
    best = call(kernel(launches, tmp_path / "t.jsonl"))
    timed = list(read_records(tmp_path / "t.jsonl"))
    assert 4 <= len(timed) <= 16
    assert best.num_warps == 1
    assert {each.candidate.config.decisions["BLOCK"] for each in timed} <= {256, 512, 1024}
    assert all(set(each.candidate.config.decisions) <= {"BLOCK", "num_warps", "num_stages"} for each in timed)


def test_another_process_makes_them_no_more(
    launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = call(kernel(launches, tmp_path / "t.jsonl", mode="model"))
    monkeypatch.delattr(proposing, "Proposer")
    assert call(kernel(launches, tmp_path / "t.jsonl", mode="model")).all_kwargs() == first.all_kwargs()
    with pytest.raises(NameError):
        call(kernel(launches, tmp_path / "t.jsonl", mode="model"), width=2 * WIDTH)


def test_workers_make_the_same(launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = call(kernel(launches, tmp_path / "t.jsonl", mode="model"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    apart = call(kernel(launches, tmp_path / "t.jsonl", mode="model", compile_workers=2))
    assert here.all_kwargs() == apart.all_kwargs()


def test_what_the_call_gives_is_not_chosen(launches: Launches, tmp_path: Path) -> None:
    best = call(kernel(launches, tmp_path / "t.jsonl"), BLOCK=512)
    assert "BLOCK" not in best.kwargs
    assert launches.launched[-1]["BLOCK"] == 512


def test_another_list_than_auto_is_refused(launches: Launches, tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="configs must be a list, or 'auto', but got 'all'"):
        kernel(launches, tmp_path / "t.jsonl", configs="all")


def test_without_a_gpu_there_is_nothing_to_make_them_for(launches: Launches, tmp_path: Path) -> None:
    cpu = Platform(Device("a CPU", "cpu", "x86", 4, 0.0), "whole", 4, 4)
    with pytest.raises(CostModelError, match="configs='auto' must have an NVIDIA GPU"):
        call(kernel(launches, tmp_path / "t.jsonl", platform=cpu))


PROGRAM = """
import torch, triton
import triton.language as tl
from costmodel.integrations.triton import autotune

@autotune(configs="auto", key=["n"])
@triton.jit
def centre(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + row * n + at, values - tl.sum(values, 0) / n, mask=at < n)

@autotune(configs="auto", key=["m", "n", "k"])
@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    columns = tl.cdiv(n, BN)
    height = tl.minimum(tl.cdiv(m, BM) - tl.program_id(0) // (GROUP * columns) * GROUP, GROUP)
    first = tl.program_id(0) // (GROUP * columns) * GROUP + tl.program_id(0) % (GROUP * columns) % height
    rows = first * BM + tl.arange(0, BM)
    cols = tl.program_id(0) % (GROUP * columns) // height * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + at[None, :], (rows[:, None] < m) & (at[None, :] < k), 0.0)
        right = tl.load(b + at[:, None] * n + cols[None, :], (at[:, None] < k) & (cols[None, :] < n), 0.0)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + cols[None, :], total, (rows[:, None] < m) & (cols[None, :] < n))

@autotune(configs="auto", key=["n"])
@triton.jit
def dot(x, y, out, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, PROGRAMS * BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, at < n, 0.0) * tl.load(y + at, at < n, 0.0)
    tl.atomic_add(out, tl.sum(total, 0))

x, y = torch.randn(30, 200), torch.zeros(30, 200)
centre[(30,)](x, y, 200)
torch.testing.assert_close(y, x - x.mean(1, keepdim=True))
a, b, c = torch.randn(50, 70), torch.randn(70, 90), torch.zeros(50, 90)
product[lambda meta: (triton.cdiv(50, meta["BM"]) * triton.cdiv(90, meta["BN"]),)](a, b, c, 50, 90, 70)
torch.testing.assert_close(c, a @ b, atol=1e-4, rtol=1e-4)
out = torch.zeros(1)
dot[lambda meta: (meta["PROGRAMS"],)](x.ravel(), a.ravel()[:3000].contiguous(), out, 3000)
torch.testing.assert_close(out[0], x.ravel()[:3000] @ a.ravel()[:3000], atol=1e-3, rtol=1e-3)
print(centre.best_config, product.best_config, dot.best_config)
"""


@pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7),
    reason="with NumPy of today the interpreter of 3.6 has no loops over arguments",
)
def test_three_kernels_without_a_list_run_in_the_interpreter(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


UNTIMED = """
import torch
import triton
import triton.language as tl
from costmodel.integrations.triton import autotune

@autotune([triton.Config({"BLOCK": block}) for block in (32, 64)], ["n"])
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)

double[(1,)](torch.ones(16), 16)
"""


def test_without_a_gpu_a_timer_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(UNTIMED)
    store = {"COSTMODEL_TRITON_STORE": str(tmp_path / "timings.jsonl")}
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", **store}
    done = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, check=False
    )
    assert "CostModelError: A GPU, or a timer of yours, must time the configs of double" in done.stderr
    assert "do_bench=" in done.stderr
