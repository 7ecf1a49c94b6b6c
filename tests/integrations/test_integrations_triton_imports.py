"""The drop-in is a guest in somebody's training loop, and the reader of its tables in a server."""

import subprocess
import sys

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


def test_reading_a_dispatch_table_loads_numpy_at_most() -> None:
    ours, others = loaded("", "from costmodel.search import load_dispatch_table")
    assert len(ours) <= 25
    assert not others & HEAVY
