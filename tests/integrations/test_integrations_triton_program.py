"""Programs as users have them, whose Triton kernels are read without a GPU, or timed where there is one.

Triton's compiler is real; a GPU is not there, and launches that are made are made up.
"""

import fcntl
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch
from triton.runtime.jit import JITFunction

from costmodel import CostModelError
from costmodel.errors import DeviceUnavailableError
from costmodel.integrations.triton import _ranking as ranking
from costmodel.integrations.triton import autotune, rank_program, tune_program
from costmodel.integrations.triton._apart import DEFAULT_DEVICE as DEVICE
from costmodel.integrations.triton._program import first_launches
from costmodel.kernels.triton._source import is_triton_program
from costmodel.records import find_device
from costmodel.records._platform import part_of

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

H100 = find_device("NVIDIA H100 80GB HBM3")
KERNEL = """
import torch
import triton
import triton.language as tl

{decorator}
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total * TWICE, mask=inside)
"""
LISTED = "@triton.autotune([triton.Config({'BLOCK': b}, num_warps=4) for b in (32, 1024)], key=['n'])"
MAIN = """
DEVICE = {device}

def call(x, y):
    out = torch.empty_like(x)
    assert x.is_cuda or DEVICE == "cpu"
    assert x.device == out.device
    n = out.numel()
    add[{grid}](x, y, out, n, TWICE=2{given})
    return out

if __name__ == "__main__":
    x = torch.rand(98432, device=DEVICE)
    y = torch.randn(98432).to(DEVICE)
    out = call(x, y)
    call(x[:64], y[:64])
    {then}
"""
BY_FUNCTION = "lambda meta: (triton.cdiv(n, meta['BLOCK']),)"
FIXED = "(triton.cdiv(n, 1024),)"
CATCHES_ALL = """
    import time
    while True:
        try: time.sleep(100)
        except BaseException: pass
"""
GPU = "triton.runtime.driver.active.get_active_torch_device()"


def program(
    folder: Path,
    decorator: str = "",
    *,
    grid: str = BY_FUNCTION,
    given: str = ", BLOCK=1024, num_warps=8",
    then: str = "torch.testing.assert_close(out, 2 * (x + y))",
    device: str = GPU,
) -> Path:
    file = folder / "program.py"
    main = MAIN.format(grid=grid, given=given, then=then, device=device)
    file.write_text(KERNEL.format(decorator=decorator) + main)
    return file


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("device", [GPU, "'cuda'", "torch.device('cuda:0')"])
def test_the_first_launch_is_found_without_a_gpu(device: str, tmp_path: Path) -> None:
    (found,) = first_launches(program(tmp_path, LISTED, given="", device=device), H100).launches
    assert (found.name, found.times) == ("add", 2)
    assert found.arguments["n"] == 98432
    assert found.arguments["TWICE"] == 2
    assert found.arguments["x"].shape == (98432,)
    assert [each.kwargs["BLOCK"] for each in found.configs] == [32, 1024]


def test_a_program_finds_the_gpu_that_it_is_told(tmp_path: Path) -> None:
    file = program(tmp_path, given=", BLOCK=torch.cuda.get_device_properties(0).multi_processor_count")
    (found,) = first_launches(file, H100).launches
    assert found.arguments["BLOCK"] == H100.sms


def test_a_kernel_that_a_program_compiles_first_is_found(tmp_path: Path) -> None:
    """As in Triton's tutorial on softmax, which asks for its registers."""
    then = """
    kernel = add.warmup(x, y, out, 98432, BLOCK=512, TWICE=2, num_warps=8, grid=(1,))
    kernel._init_handles()
    kernel[(98432 // (16 * kernel.n_regs), 1, 1)](x, y, out, 98432, 512, 2)
    """
    file = program(tmp_path, then=then)
    file.write_text(
        file.read_text()
        .replace("out = call(x, y)", "out = torch.empty_like(x)")
        .replace("call(x[:64], y[:64])", "")
    )
    (found,) = first_launches(file, H100).launches
    assert found.times == 1
    assert found.grid[0] > 1
    assert {name: found.arguments[name] for name in ("n", "BLOCK", "num_warps")} == {
        "n": 98432,
        "BLOCK": 512,
        "num_warps": 8,
    }


def test_nothing_of_the_stand_ins_is_left(tmp_path: Path) -> None:
    before = [sys.argv, sys.path, sys.modules["__main__"], JITFunction.run, torch.cuda.is_available]
    first_launches(program(tmp_path, LISTED, given=""), H100)
    after = [sys.argv, sys.path, sys.modules["__main__"], JITFunction.run, torch.cuda.is_available]
    assert before == after
    assert torch.zeros(1).device.type == "cpu"


@pytest.mark.parametrize(("line", "said"), [("pass", ""), ("raise ValueError('no luck')", "no luck")])
def test_a_program_without_launches_is_refused_with_what_ended_it(
    line: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(KERNEL.format(decorator="") + line)
    with pytest.raises(CostModelError, match=rf"must launch a Triton kernel.*{said}"):
        first_launches(file, H100)


@pytest.mark.parametrize(
    "forever",
    [
        "while True:\n        call(x, y)",
        "while True:\n        try: call(x, y)\n        except Exception: pass",
    ],
)
def test_a_program_that_launches_for_ever_is_ended(forever: str, tmp_path: Path) -> None:
    found = first_launches(program(tmp_path, then=forever), H100)
    assert [each.name for each in found.launches] == ["add"]
    assert "10,000 times without a kernel that is new" in found.ended_by


def test_a_program_may_import_its_kernels(tmp_path: Path) -> None:
    (tmp_path / "kernels_of_mine.py").write_text(program(tmp_path, LISTED, given="").read_text())
    file = tmp_path / "main.py"
    file.write_text(
        "import torch\nfrom kernels_of_mine import call\nx = torch.rand(64, device='cuda')\ncall(x, x)"
    )
    assert is_triton_program(str(file))
    assert [each.name for each in first_launches(file, H100).launches] == ["add"]


@pytest.mark.parametrize("text", ["FAMILY = costmodel.TritonFamily()", "from tvm.script import tir as T"])
def test_families_and_programs_of_tvm_are_none_of_triton(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(text)
    assert not is_triton_program(str(tmp_path / "other.py"))


def test_listed_configs_are_ordered_by_what_is_read(tmp_path: Path) -> None:
    (found,) = ranking.rank_here(program(tmp_path, LISTED, given=""), DEVICE, 16, 0)
    assert found.platform == "NVIDIA H100 80GB HBM3/green_context/16"
    assert [each.decisions["BLOCK"] for each in found.configs] == [1024, 32]  # 3,076 programs are many
    assert found.own is None
    assert found.chosen == ["BLOCK"]
    assert all(each.low < each.expected < each.high and not each.in_seconds for each in found.expected)


def test_of_a_bare_kernel_what_the_grid_looks_up_is_chosen(tmp_path: Path) -> None:
    (found,) = ranking.rank_here(program(tmp_path), DEVICE, None, 0)
    assert found.own is not None
    assert found.own.decisions == {"BLOCK": 1024, "num_warps": 8, "num_stages": 3}
    assert found.own in found.configs
    assert set(found.chosen) == {"BLOCK", "num_warps"}  # TWICE decides the result
    assert len(found.configs) > 4


def test_of_a_grid_that_is_no_function_warps_alone_are_chosen(tmp_path: Path) -> None:
    (found,) = ranking.rank_here(program(tmp_path, grid=FIXED), DEVICE, None, 0)
    assert set(found.chosen) == {"num_warps"}
    assert {each.decisions.get("BLOCK") for each in found.configs} == {None}


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("pass", ""),
        ("import sys; sys.exit()", ""),
        ("import os; os._exit(0)", ""),
        ("import os; os._exit(3)", "SystemExit: 3"),
        ("raise ValueError('no luck')", "ValueError: no luck"),
    ],
)
def test_what_ends_a_program_is_told_beside_what_it_launched(then: str, said: str, tmp_path: Path) -> None:
    found = first_launches(program(tmp_path, then=then), H100)
    assert [each.name for each in found.launches] == ["add"]
    assert said in found.ended_by
    assert bool(said) == bool(found.ended_by)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("while True: pass", "2 s without launching a kernel that is new"),
        ("import time; time.sleep(1e6)", "2 s without launching a kernel that is new"),
        ("import threading; threading.Thread(target=threading.Event().wait).start()", ""),
    ],
)
def test_a_program_that_does_not_end_is_ended(then: str, said: str, tmp_path: Path) -> None:
    (found,) = rank_program(program(tmp_path, LISTED, given="", then=then), workers=1, time_limit_s=2.0)
    assert [each.decisions["BLOCK"] for each in found.configs] == [1024, 32]
    assert said in found.ended_by
    assert bool(said) == bool(found.ended_by)


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("import os; os.abort()", "ended with SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", "ended with SIGKILL"),
        (CATCHES_ALL, r"within 1 s, but does neither and cannot be interrupted: .*program.py.*--time-limit"),
    ],
)
def test_a_program_that_takes_its_process_with_it_costs_itself_alone(
    then: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(CostModelError, match=said):
        rank_program(program(tmp_path, then=then), time_limit_s=1.0)


def test_a_process_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CostModelError, match="ended with exit code 1"):
        rank_program(program(tmp_path))


def test_configs_are_read_for_gpus_of_nvidia_alone(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="GPUs of NVIDIA, but AMD Instinct MI300X is none"):
        rank_program(program(tmp_path), device="MI300X")


def test_what_a_program_asks_of_data_is_guessed(tmp_path: Path) -> None:
    """As Liger's cross entropy does, which counts labels, and looks at the largest, before its launch."""
    file = program(tmp_path, then="pass")
    before, n = "n = out.numel()", "n = (x > 0).sum().item() if x.max() < 1e9 and float(x[0]) > -1 else 0"
    file.write_text(file.read_text().replace(before, n))
    (found,) = first_launches(file, H100).launches
    assert found.arguments["n"] == 64


def test_a_program_may_choose_its_gpu(tmp_path: Path) -> None:
    """As flash-linear-attention does around each launch."""
    file = program(tmp_path, then="pass")
    file.write_text(
        file.read_text().replace("    out = call(x, y)", "    with torch.cuda.device(0): call(x, y)")
    )
    assert len(first_launches(file, H100).launches) == 1


@pytest.mark.parametrize("leave", ["os._exit(7)", "sys.exit(7)"])
def test_processes_that_a_program_forks_may_leave(leave: str, tmp_path: Path) -> None:
    then = f"""
    import os, sys
    if not os.fork():
        {leave}
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    """
    assert not first_launches(program(tmp_path, then=then), H100).ended_by


def test_processes_that_a_program_forks_end_with_it(tmp_path: Path) -> None:
    """One holds a lock, and would say that it outlived the program."""
    held = tmp_path / "held"
    then = f"""
    import fcntl, os, time
    file = open({str(held)!r}, "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    if not os.fork():
        time.sleep(20)
        file.write("outlived")
        file.flush()
        os.kill(os.getpid(), 9)
    """
    assert rank_program(program(tmp_path, LISTED, given="", then=then), workers=1)
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert not held.read_text()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Blocks of launches, which are made up: each adds one to its argument ``x``, and 32 is fastest."""
    launched: list[int] = []

    def launch(*_: Any, BLOCK: int, warmup: bool, x: Any, **__: Any) -> None:
        if not warmup:
            launched.append(BLOCK)
            x += 1

    def bench(call: Any, quantiles: Any) -> list[float]:
        call()
        return [1.0 + abs(launched[-1] - 32)] * len(quantiles)

    platform = part_of(H100, 32)
    ours = partial(autotune, do_bench=bench, platform=platform, compile_workers=0)
    monkeypatch.setattr(ranking, "autotune", ours)
    monkeypatch.setattr(ranking, "current_platform", lambda: platform)
    monkeypatch.setattr(ranking, "cpu_threads", lambda: 0)
    monkeypatch.setattr(JITFunction, "run", launch)
    return launched


@pytest.mark.parametrize("decorator", ["", LISTED])
def test_a_program_times_configs_and_goes_on_with_the_best(
    decorator: str, launched: list[int], tmp_path: Path
) -> None:
    given = "" if decorator else ", BLOCK=1024, num_warps=8"
    file = program(tmp_path, decorator, given=given, then="pass", device="'cpu'")
    (found,) = ranking.tune_here(file, None, 2, str(tmp_path / "timings.jsonl"))
    timed = [each for each, time in zip(found.configs, found.expected, strict=True) if time.low == time.high]
    assert len(timed) == 2
    assert found.own is None or found.own in timed
    assert all(each.in_seconds for each in found.expected)
    best = min(timed, key=lambda each: abs(int(str(each.decisions["BLOCK"])) - 32))
    assert launched[-2:] == [best.decisions["BLOCK"]] * 2  # the first call and the second
    assert (tmp_path / "timings.jsonl").read_text().count("\n") == 2


def test_a_kernel_that_writes_what_it_reads_has_it_back_after_timing(
    launched: list[int], tmp_path: Path
) -> None:
    """The first call adds one, and the second, as without timing."""
    file = program(tmp_path, then="assert (x[:64] >= 2).all() and (x[64:] < 2).all()", device="'cpu'")
    (found,) = ranking.tune_here(file, None, 3, str(tmp_path / "timings.jsonl"))
    assert len(launched) > 3
    assert not found.ended_by


def test_timing_needs_a_gpu(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    with pytest.raises(DeviceUnavailableError, match="rank_program"):
        tune_program(program(tmp_path))
