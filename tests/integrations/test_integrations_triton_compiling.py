"""Configs that crash Triton's compiler, of which there are real ones: the rest of the program goes on.

The compiler is Triton's own, for a GPU that is not there: what stands behind it, loading and launching, is
made up.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from costmodel.records import Outcome, read_records

pytestmark = pytest.mark.triton

# Tunes kernels, as a script without a guard for processes that import it; arguments: a folder, and JSON with
# settings of `autotune`, operands of each config's assembly, how often the kernel is launched, and whether
# another thread launches it as well.
PROGRAM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
import torch, triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from costmodel.integrations.triton import autotune
from costmodel.records import find_device
from costmodel.records._platform import part_of

folder, asked = Path(sys.argv[1]), json.loads(sys.argv[2])
launched, compiled, timed, now = [], [], [], {}

class Launcher:
    def __init__(self, source, metadata): self.warps = metadata.num_warps
    def __call__(self, *arguments): launched.append(self.warps)

class Active:
    launcher_cls = Launcher
    utils = SimpleNamespace(
        get_device_properties=lambda device: {"max_shared_mem": 232448},
        load_binary=lambda *kernel: (None, None, 32, 0, 1024),
    )
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0
    def get_current_target(self): return GPUTarget("cuda", 90, 32)

driver.set_active(Active())
def listen(src, metadata, metadata_group, times, cache_hit):
    compiled.append((metadata["num_warps"], cache_hit))
triton.knobs.compilation.listener = listen

def bench(kernel_call, quantiles):
    kernel_call()
    timed.append(launched[-1])
    return [8.0 / launched[-1]] * 3

configs = [triton.Config({"OPERANDS": each}, num_warps=2**i) for i, each in enumerate(asked["operands"])]

beside = []
def block(arguments):
    if asked["beside"]:  # another thread launches the kernel while this one finds out what is to be compiled
        with ThreadPoolExecutor(1) as threads:
            there = threads.submit(kernel.warmup, torch.float32, 64, "=r,r", 64, grid=(1,))
            beside.append(str(there.exception()))
    return 128

@autotune(
    configs, ["n"], do_bench=bench, store=folder / "timings.jsonl",
    platform=part_of(find_device("NVIDIA H100 80GB HBM3"), 132), **asked["settings"],
)
@triton.heuristics({"BLOCK": block})
@triton.jit
def copy(x, n, OPERANDS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    value = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", OPERANDS, [value], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(x + at, value, mask=at < n)

kernel, error = copy.fn.fn, None
try:
    for _ in range(asked["launches"]): copy[(1,)](torch.ones(64), 64)
except Exception as raised: error = f"{type(raised).__name__}: {raised}"
told = {"launched": launched, "timed": timed, "compiled": compiled}
print(json.dumps(told | {"beside": beside, "error": error}))
"""
WORKS, CRASHES = "=r,r", "=r,r,r,r"
NO_TEXT, NO_SUCH_REGISTERS = 3, "=r,l"  # refused by Triton, and by ptxas
REASON = "number of input constraints does not match"


def run(
    folder: Path, *operands: str | int, launches: int = 1, beside: bool = False, **settings: Any
) -> dict[str, Any]:
    """What a process tells that tunes a kernel with these configs, of 1, 2, 4 ... warps; more are faster."""
    ended = start(folder, operands, settings, launches=launches, beside=beside)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])  # behind what Triton prints
    return told


def start(
    folder: Path, operands: tuple[str | int, ...], settings: dict[str, Any], **more: Any
) -> "subprocess.CompletedProcess[str]":
    (folder / "tunes.py").write_text(PROGRAM)
    asked = {"operands": operands, "settings": settings, "launches": 1, "beside": False, **more}
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, folder / "tunes.py", folder, json.dumps(asked)],
        env=environment | {"TRITON_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


def kept(folder: Path) -> dict[int, tuple[Outcome, str]]:
    """Outcome and reason by warps."""
    rows = read_records(folder / "timings.jsonl")
    return {each.candidate.config.decisions["num_warps"]: (each.outcome, each.error) for each in rows}


def test_a_config_that_crashes_the_compiler_costs_itself_alone(tmp_path: Path) -> None:
    told = run(tmp_path, WORKS, CRASHES, WORKS)
    assert (told["timed"], told["launched"][-1], told["error"]) == ([1, 4], 4, None)
    assert told["compiled"] == [[1, True], [4, True]]  # found in the cache, in which the workers put them
    outcome, reason = kept(tmp_path)[2]
    assert outcome is Outcome.COMPILE_ERROR
    assert reason.startswith("the compiler ended its process with SIGABRT: ")
    assert REASON in reason

    again = run(tmp_path, WORKS, CRASHES, WORKS)
    assert (again["timed"], again["launched"]) == ([], [4])


def test_in_this_process_such_a_config_ends_it(tmp_path: Path) -> None:
    ended = start(tmp_path, (WORKS, CRASHES, WORKS), {"compile_workers": 0})
    assert ended.returncode < 0
    assert REASON in ended.stderr


@pytest.mark.parametrize("mode", ["model", "background"])
def test_a_first_choice_that_crashes_gives_way_to_the_next(tmp_path: Path, mode: str) -> None:
    settings = {"mode": mode, "compile_workers": 1}
    folders = [tmp_path / name for name in ("works", "crashes")]
    for folder in folders:
        folder.mkdir()
    first = run(folders[0], WORKS, WORKS, WORKS, **settings)["launched"][0]
    others = [warps for warps in (1, 2, 4) if warps != first]
    operands = [CRASHES if warps == first else WORKS for warps in (1, 2, 4)]
    told = run(folders[1], *operands, launches=3, **settings)
    assert told["launched"][0] in others
    assert told["launched"][-1] == {"model": told["launched"][0], "background": max(others)}[mode]


def test_what_crashes_with_all_configs_is_told_of(tmp_path: Path) -> None:
    told = run(tmp_path, CRASHES, "=r,r,r")
    assert told["launched"] == []
    assert told["error"].startswith("CostModelError: Some config of triton.copy_fp32-n64 must run on ")
    assert REASON in told["error"]


@pytest.mark.parametrize(("operands", "reason"), [(NO_TEXT, ""), (NO_SUCH_REGISTERS, "ptxas")])
def test_what_is_refused_without_a_crash_is_told_of_as_before(
    tmp_path: Path, operands: str | int, reason: str
) -> None:
    told = run(tmp_path, operands, WORKS)
    assert (told["timed"], told["error"]) == ([2], None)
    outcome, error = kept(tmp_path)[1]
    assert outcome is Outcome.COMPILE_ERROR
    assert reason in error
    assert "the compiler ended" not in error


def test_other_threads_compile_as_ever(tmp_path: Path) -> None:
    told = run(tmp_path, WORKS, WORKS, beside=True)
    assert (told["timed"], told["error"]) == ([1, 2], None)
    assert set(told["beside"]) == {"None"}


def test_in_the_background_the_shortlist_is_compiled_at_once(tmp_path: Path) -> None:
    cubins = [compiled_after(tmp_path, calls) for calls in (1, 3)]
    assert cubins == [1, 3]


def compiled_after(folder: Path, calls: int) -> int:
    """How many configs of three are in Triton's cache after so many calls in an empty folder."""
    own = folder / str(calls)
    own.mkdir()
    run(own, WORKS, WORKS, WORKS, mode="background", launches=calls)
    return len(list(own.glob("cache/*/*.cubin")))
