"""The scripts of docs/examples are short, use the public names, and run without an extra."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import ROOT

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
MADE = {
    "evaluate": {"by_measurements.png", "report"},
    "own_function": set(),
    "several_sm_budgets": {"dispatch.json"},
    "train_and_predict": {"h100.costmodel"},
    "tune": {"tune.png"},
}
# All that the extras bring: of no use to a replay.
EXTRAS = ("tvm", "xgboost", "mlflow", "torch", "cuda", "psutil", "pebble")

by_script = pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)


@by_script
def test_a_script_is_short_and_imports_nothing_of_ours_but_the_package(script: Path) -> None:
    text = script.read_text()
    assert len(text.splitlines()) <= 60
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    ours = [text for text in map(ast.unparse, imports) if "costmodel" in text]
    assert ours == ["import costmodel"]
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.docs
@by_script
def test_a_script_runs_and_makes_what_it_says(script: Path, tmp_path: Path) -> None:
    blocked = (
        f"import sys, runpy; sys.modules.update(dict.fromkeys({EXTRAS})); runpy.run_path({str(script)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == MADE[script.stem]
