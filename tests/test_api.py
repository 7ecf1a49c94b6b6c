"""The public names of the package: all there, few, lazy, and known to type checkers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import costmodel

HEAVY = (
    "tvm",
    "torch",
    "xgboost",
    "mlflow",
    "optuna",
    "matplotlib",
    "pandas",
    "pyarrow",
    "sklearn",
    "cuda",
    "triton",
    "distributed",
)


@pytest.mark.parametrize("name", costmodel.__all__)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(costmodel, name).__doc__


def test_there_are_about_twenty_five_of_them() -> None:
    assert len(costmodel.__all__) <= 30
    assert dir(costmodel) == sorted(costmodel.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tuen'"):
        costmodel.tuen  # noqa: B018


def test_names_are_loaded_when_they_are_used() -> None:
    code = f"import sys, costmodel; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_type_checkers_see_the_same_names() -> None:
    source = ast.parse(Path(costmodel.__file__).read_text())
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    seen = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(costmodel.__all__) - {"__version__"}
