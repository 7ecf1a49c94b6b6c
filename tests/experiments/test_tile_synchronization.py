"""Chains of products are right by each way of waiting, and measured in small by Triton's interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "tile_synchronization"


@pytest.mark.triton
def test_chains_are_right_and_measured(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    command = [sys.executable, FOLDER / "measure.py", "--device", "cpu", "--out", tmp_path / "live.json"]
    done = subprocess.run(
        command,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "live.json").read_text())["rows"]
    assert [len(row["grids"]) for row in rows] == [2, 4] or [len(row["grids"]) for row in rows] == [4, 2]
    for row in rows:
        assert set(row["off"]) == {"stream", "row", "tile", "strided"}
        assert max(row["off"].values()) < 1e-2
