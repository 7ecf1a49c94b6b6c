"""What the drop-in does with a kernel that nobody timed: it reads the configs and asks what it comes with.

Triton's compiler is real, for a GPU that is not there; launching is made up.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch
import triton
import triton.language as tl

from costmodel.integrations.triton import Autotuner, autotune
from costmodel.integrations.triton import _autotuner as drop_in
from costmodel.integrations.triton import _shortlist as shortlist
from costmodel.integrations.triton._reading import ReadRequest, read_configs
from costmodel.records import find_device, read_records
from costmodel.records._platform import Device, Platform, part_of
from costmodel.transfer._read_ranker import shipped_ranker

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

H100 = find_device("NVIDIA H100 80GB HBM3")


@triton.jit
def copy_rows(x, y, n, m, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # noqa: PLR0917
    row = tl.program_id(0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < n
        tl.store(y + row * n + at, tl.load(x + row * n + at, mask=mask), mask=mask)


def hook(told: dict[str, Any]) -> None:
    hooked.append(told["BLOCK"])


hooked: list[int] = []
BLOCKS = (16, 64, 256, 1024, 2048)  # the first is the worst by far
CONFIGS = [triton.Config({"BLOCK": block}, num_warps=4) for block in BLOCKS]
M, N = 512, 4096


class Launches:
    """What stands behind a kernel: notes launches, and tells milliseconds of a config."""

    def __init__(self) -> None:
        self.launched: list[int] = []
        self.read: list[int] = []

    def run(self, *_: Any, warmup: bool = False, **told: Any) -> None:
        if not warmup:
            self.launched.append(told["BLOCK"])

    def bench(self, call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
        call()
        return [1.0 + abs(self.launched[-1] - 256) / 256] * len(quantiles)


@pytest.fixture
def launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hooked.clear()
    return Launches()


def kernel(launches: Launches, store: Path, function: Any = copy_rows, **settings: Any) -> Autotuner:
    even = triton.heuristics({"EVEN": lambda told: told["n"] % told["BLOCK"] == 0})
    settings = {"platform": part_of(H100, 32), "compile_workers": 0, "configs": CONFIGS, **settings}
    made = autotune(key=["n", "m"], store=store, do_bench=launches.bench, **settings)(even(function))
    made.fn = launches
    return made


def call(tuned: Autotuner, m: int = M) -> int:
    x = torch.zeros(M, N)
    tuned[(m,)](x, torch.zeros_like(x), N, m)
    return int(tuned.best_config.kwargs["BLOCK"])


def by_what_is_read(sms: int = 32) -> list[int]:
    """Blocks, the best first, by the ranker alone."""
    x = torch.zeros(M, N)
    arguments = {"x": x, "y": x, "n": N, "m": M}
    rules = {"EVEN": lambda told: told["n"] % told["BLOCK"] == 0}
    readings = read_configs(ReadRequest(copy_rows, arguments, (M,), "sm_90", rules), CONFIGS)
    assert [each.note for each in readings] == [""] * len(CONFIGS)
    log_s = shipped_ranker().predict([each.facts for each in readings], part_of(H100, sms))
    return [BLOCKS[i] for i in log_s.argsort(kind="stable")]


@pytest.mark.parametrize("mode", ["model", "background"])
def test_the_first_call_runs_what_the_ranker_puts_first(
    mode: str, launches: Launches, tmp_path: Path
) -> None:
    order = by_what_is_read()
    tuned = kernel(launches, tmp_path / "t.jsonl", mode=mode)
    assert call(tuned) == order[0] != BLOCKS[0]
    assert launches.launched == order[:1]


def test_a_shortlist_is_the_first_by_the_ranker(launches: Launches, tmp_path: Path) -> None:
    order = by_what_is_read()
    call(kernel(launches, tmp_path / "t.jsonl", shortlist=2))
    assert launches.launched[:2] == order[:2]


def test_times_are_expected_relative_to_one_another_then_in_seconds(
    launches: Launches, tmp_path: Path
) -> None:
    tuned = kernel(launches, tmp_path / "t.jsonl", mode="model")
    assert tuned.configs_expected == {}
    call(tuned)
    told = tuned.configs_expected
    assert min(told, key=lambda config: told[config].expected) is tuned.best_config
    assert len(told) == len(CONFIGS)
    assert not any(each.in_seconds for each in told.values())

    tuned = kernel(launches, tmp_path / "t.jsonl", shortlist=2)
    call(tuned)
    told = tuned.configs_expected
    timed = {each.kwargs["BLOCK"] for each, time in told.items() if time.low == time.high}
    assert timed == set(by_what_is_read()[:2])
    assert all(each.in_seconds for each in told.values())
    assert told[tuned.best_config].expected == pytest.approx(
        1e-3 * tuned.configs_timings[tuned.best_config][0]
    )


def test_all_are_measured_by_default_and_nothing_is_read(
    launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("costmodel.integrations.triton._reading.read_configs")
    assert call(kernel(launches, tmp_path / "t.jsonl")) == 256
    assert launches.launched[: len(BLOCKS)] == list(BLOCKS)


def test_timings_of_the_kernel_elsewhere_lead(launches: Launches, tmp_path: Path) -> None:
    """They say 256, whatever else was read; of configs without any, what was read decides."""
    call(kernel(launches, tmp_path / "t.jsonl"), m=M // 2)
    launches.launched.clear()
    assert call(kernel(launches, tmp_path / "t.jsonl", mode="model")) == 256

    some = [CONFIGS[0], CONFIGS[3]]
    call(kernel(launches, tmp_path / "some.jsonl", configs=some), m=M // 2)
    chosen = call(kernel(launches, tmp_path / "some.jsonl", mode="model"))
    assert chosen == next(block for block in by_what_is_read() if block != 16)


def test_what_was_read_is_recalled_at_another_size(
    launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timings of the other size are moved by what is read at both."""
    asked: list[tuple[str, str]] = []
    losses = shortlist._read_losses

    def note(facts: Any, platform: Platform) -> list[float]:
        programs = {each.programs for each in facts if each is not None}
        asked.append((platform.name, str(programs)))
        return losses(facts, platform)

    call(kernel(launches, tmp_path / "t.jsonl", shortlist=2), m=M // 2)
    monkeypatch.setattr(shortlist, "_read_losses", note)
    call(kernel(launches, tmp_path / "t.jsonl", mode="model"))
    here = part_of(H100, 32).name
    assert asked == [(here, f"{{{M:.1f}}}"), (here, f"{{{M / 2:.1f}}}")]


def test_an_answer_in_the_store_reads_nothing(
    launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(kernel(launches, tmp_path / "t.jsonl"))
    monkeypatch.delattr("costmodel.integrations.triton._reading.read_configs")
    assert call(kernel(launches, tmp_path / "t.jsonl", mode="model")) == 256


@triton.jit
def cannot_be_read(x, y, n, m, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # noqa: PLR0917
    tl.static_assert(BLOCK == 16, "as asked")
    tl.store(y + tl.arange(0, BLOCK), 0.0)


def test_what_cannot_be_read_follows_in_its_order_and_is_told(
    launches: Launches, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton.knobs.autotuning, "print", True)
    backwards = CONFIGS[::-1]
    assert call(kernel(launches, tmp_path / "t.jsonl", cannot_be_read, configs=backwards, mode="model")) == 16
    told = capsys.readouterr().out
    assert "what was read of 1 of 5 configs (4 not read: CompileTimeAssertionFailure: as asked)" in told


@pytest.mark.parametrize("kind", ["hip", "cpu"])
def test_other_platforms_keep_the_order_of_the_list(
    kind: Any,
    launches: Launches,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triton.knobs.autotuning, "print", True)
    platform = Platform(Device("other", kind, "gfx942", 304, 2100.0), "whole", 304, 304)
    assert call(kernel(launches, tmp_path / "t.jsonl", mode="model", platform=platform)) == BLOCKS[0]
    assert "by their order in the list" in capsys.readouterr().out


def test_a_graph_that_is_captured_is_no_place_to_read(
    launches: Launches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks of configs would become part of the graph; the next call reads."""
    configs = [triton.Config(each.kwargs, num_warps=4, pre_hook=hook) for each in CONFIGS]
    tuned = kernel(launches, tmp_path / "t.jsonl", configs=configs, mode="model")
    with monkeypatch.context() as patched:
        patched.setattr(drop_in, "is_capturing", lambda: True)
        assert call(tuned) == BLOCKS[0]
    assert set(hooked) == {BLOCKS[0]}
    assert call(tuned) == by_what_is_read()[0]


def test_a_background_tuning_goes_on_in_that_order(launches: Launches, tmp_path: Path) -> None:
    tuned = kernel(launches, tmp_path / "t.jsonl", mode="background")
    order = by_what_is_read()
    for _ in range(len(BLOCKS) + 1):
        call(tuned)
    timed = [each.candidate.config.decisions["BLOCK"] for each in read_records(tmp_path / "t.jsonl")]
    assert timed == order
    assert tuned.best_config.kwargs["BLOCK"] == 256


def test_workers_read_as_well(launches: Launches, tmp_path: Path) -> None:
    assert (
        call(kernel(launches, tmp_path / "t.jsonl", mode="model", compile_workers=2)) == by_what_is_read()[0]
    )
