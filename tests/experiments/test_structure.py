"""The counts of experiments/structure, on a small package that was counted by hand."""

import ast
import json
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "structure" / "run.py"

SOURCES = {
    "costmodel/__init__.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from a import tune as tune\n"
        "__all__ = ['__version__', *(n for n in ())]\n"
    ),
    "costmodel/search/__init__.py": "from costmodel.search._a import f\n\n__all__ = ['f', 'g']\n",
    "costmodel/search/_a.py": 'def f():\n    """Text\n\n    over lines."""\n    a = 1\n    return a\n',
    "costmodel/search/deep/__init__.py": "__all__ = ['h']\n",
    "tests/test_a.py": (
        "import costmodel.search._a\n"
        "from costmodel.search import f\n"
        "from costmodel.search._a import f as g, x\n"
        "from costmodel import __version__\n"
        "patch('costmodel.search._a.x', 'costmodel._ is no name, and costmodel.search.f is public')\n"
    ),
}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    before = list(sys.path)
    spec = spec_from_file_location("experiment_structure", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


def test_a_small_package_is_counted(script: ModuleType) -> None:
    found = script.measure({PurePosixPath(path): source for path, source in SOURCES.items()})
    assert (found["files"], found["folders"], found["files in the widest folder"]) == (4, 3, 2)
    assert (found["lines"], found["lines of search/"], found["lines of cli/"]) == (14, 10, 0)
    assert (found["functions"], found["lines of the longest function"]) == (1, 2)
    assert found["public names of the top level"] == 2
    assert found["public names of its packages"] == 2
    assert found["public names of packages in these"] == 1
    assert found["private names that tests import, distinct"] == 3
    assert found["private names that tests import"] == 4


def test_a_function_without_a_body_of_its_own_has_no_lines(script: ModuleType) -> None:
    (function,) = ast.parse('def f():\n    """Only text."""\n').body
    assert script.length(function) == 0


def test_the_files_as_they_are_can_be_counted(script: ModuleType, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--json", str(tmp_path / "counts.json")])
    script.main()
    found = json.loads((tmp_path / "counts.json").read_text())
    assert found["revision"] == ""
    assert found["files"] > 300
