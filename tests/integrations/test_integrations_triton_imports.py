"""The drop-in is a guest in somebody's training loop, and the reader of its tables in a server."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "optuna",
    "pandas",
    "pyarrow",
    "sqlalchemy",
    "tvm",
    "matplotlib",
    "sklearn",
    "scipy",
    "rich",
    "typer",
}
LOADED = """
import sys
{first}
before = set(sys.modules)
{then}
print(*sorted(set(sys.modules) - before))
"""


TUNES = """
import sys
for name in {heavy!r}:
    sys.modules[name] = None  # as where it is not installed
import os, pathlib
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton
import triton.language as tl
from costmodel.integrations.triton import autotune, dispatch_table, save_moe_configs
from costmodel.records import find_device
from costmodel.records._platform import part_of
from costmodel.search import load_dispatch_table

@autotune(
    [triton.Config({{"BLOCK": block}}) for block in (16, 32)], ["n"], store="timings.jsonl",
    platform=part_of(find_device("NVIDIA H100 80GB HBM3")),
    do_bench=lambda call, quantiles: call() or [1.0, 1.0, 1.0],
    launch={{"flops": "n"}}, shortlist=1,
)
@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

x, y = torch.ones(64), torch.zeros(64)
copy[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, y, 64)
dispatch_table(copy).save(pathlib.Path("table.json"))
print(load_dispatch_table("table.json").kernel_for(132).config.decisions["BLOCK"])
"""


def loaded(first: str, then: str) -> tuple[set[str], set[str]]:
    """Modules of ours and packages of others that a line loads after another."""
    code = LOADED.format(first=first, then=then)
    names = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    ours = {name for name in names if name.partition(".")[0] == "costmodel"}
    return ours, {name.partition(".")[0] for name in names} - {"costmodel"}


@pytest.mark.triton
def test_the_drop_in_loads_little_besides_triton() -> None:
    pytest.importorskip("torch")
    ours, others = loaded("import torch, triton", "from costmodel.integrations.triton import autotune")
    assert len(ours) <= 45
    assert not others & HEAVY


@pytest.mark.triton
def test_the_drop_in_tunes_and_exports_where_nothing_heavy_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "tunes.py").write_text(TUNES.format(heavy=sorted(HEAVY)))
    command = [sys.executable, "tunes.py"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stdout.strip()) == (0, "16"), ended.stderr


def test_reading_a_dispatch_table_loads_numpy_at_most() -> None:
    ours, others = loaded("", "from costmodel.search import load_dispatch_table")
    assert len(ours) <= 25
    assert not others & HEAVY
