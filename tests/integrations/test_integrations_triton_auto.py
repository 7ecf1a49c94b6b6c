"""The drop-in makes its own configs of a kernel that comes without a list.

Triton's compiler is real, for a GPU that is not there; launching is made up.
"""

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
