"""The public names of the package: all there, few, and loaded when they are used."""

import subprocess
import sys

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
    with pytest.raises(AttributeError, match="No costmodel attribute tuen"):
        costmodel.tuen  # noqa: B018


def test_names_are_loaded_when_they_are_used() -> None:
    code = f"import sys, costmodel; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_packages_are_loaded_by_their_names() -> None:
    code = "import costmodel; print(costmodel.collector.ReplayRunner.__name__, costmodel.errors.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ReplayRunner costmodel.errors\n"
