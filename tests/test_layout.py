"""Ceilings of the layout, so that what was gained is not lost unseen. Raise one only with a reason."""

import ast
import gc
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "costmodel"
TESTS = Path(__file__).parent

FILES, FOLDERS, WIDEST = 584, 57, 23  # products, torch.compile and .export, profilers, programs, PTX, tables
EXPORTED, DEFINED_TWICE = 260, 3  # products, torch.compile, comparisons, benchmark, tables, tiles
KEYWORDS, MANY_PARAMETERS = 10, 15

# The most modules of this package that a fresh interpreter may have loaded after a statement.
LOADED = {
    "from costmodel.integrations.triton import autotune": 43,
    "from costmodel.integrations.inductor import compile": 50,
    "from costmodel import load_dispatch_table": 25,
    "from costmodel import load_dataset; load_dataset('h100-sm-budgets')": 40,
    "from costmodel import load_model": 75,
    "from costmodel import evaluate": 110,
    "from costmodel import train": 125,
    "import costmodel; costmodel.tune('matmul-m16-n1024-k1024', sms=32, trials=1)": 240,
}
# What a package inside a package may say beside its docstring.
_FORMER_FACE = "from costmodel.former import answer_inside\n__getattr__ = answer_inside(__name__)"
# What a guest in somebody's training loop, or a reader of a table, must not load.
HEAVY = ("optuna", "pandas", "pyarrow", "sqlalchemy", "matplotlib", "sklearn", "tvm", "scipy")


@cache
def trees() -> dict[Path, ast.Module]:
    """Each file of the package, parsed; families of kernels are data, and apart."""
    paths = sorted(path for path in PACKAGE.rglob("*.py") if "families" not in path.parts)
    gc.disable()  # Python 3.11.7 miscounts depths if the collector runs while it makes a tree (gh-106905)
    try:
        return {path: ast.parse(path.read_text()) for path in paths}
    finally:
        gc.enable()


def exports() -> dict[str, set[str]]:
    """Names of each face, by its package."""
    return {
        str(path.parent.relative_to(PACKAGE.parent)).replace("/", "."): {
            alias.asname or alias.name
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for path in sorted(PACKAGE.rglob("__init__.pyi"))
    }


def functions() -> Iterator[tuple[Path, ast.FunctionDef, int]]:
    """Each function, and its parameters without ``self``."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
                yield path, node, len([name for name in names if name not in ("self", "cls")])


def test_files_and_folders_stay_few() -> None:
    folders = Counter(path.parent for path in trees())
    assert len(trees()) <= FILES
    assert len(folders) <= FOLDERS
    assert max(folders.values()) <= WIDEST, folders.most_common(3)


def test_faces_list_few_names_and_none_that_a_module_would_hide() -> None:
    assert len(set().union(*exports().values())) <= EXPORTED
    for package, names in exports().items():
        folder = PACKAGE.parent / package.replace(".", "/")
        modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
        assert not names & modules, package


def test_only_packages_have_faces() -> None:
    inner = [name for name in exports() if name.count(".") > 1 and "integrations" not in name]
    assert inner == []
    for path, tree in trees().items():
        if (
            path.name == "__init__.py"
            and not path.with_suffix(".pyi").exists()
            and path.parent.name != "dataset"
        ):
            plain = ast.unparse(tree.body[1:]) in ("", _FORMER_FACE)
            assert plain, f"{path} must hold a docstring alone, or answer the names that 0.3 had there"


def test_a_public_name_has_one_meaning() -> None:
    places = defaultdict(set)
    for path, tree in trees().items():
        if "cli" in path.parts:  # a command is called what the function is called
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name].add(path)
    assert sorted(name for name, paths in places.items() if len(paths) > 1)[DEFINED_TWICE:] == []


def test_entries_have_few_keywords() -> None:
    for name in ("tune", "train", "evaluate", "collect"):
        (count,) = (n for path, f, n in functions() if f.name == name and path.parent.name == "tuning")
        assert count <= KEYWORDS, name
    many = [(path.name, f.name, n) for path, f, n in functions() if n > 8 and "cli" not in path.parts]
    assert len(many) <= MANY_PARAMETERS, many


def test_tests_that_look_behind_faces_say_so() -> None:
    """Such a test changes with the inside of a package, and nobody need keep it from changing."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        inner = any(
            part.startswith("_")
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costmodel.")
            for part in str(node.module).split(".")
        )
        assert not inner or "white_box" in text, path


@pytest.mark.parametrize("statement", [*LOADED])
def test_an_entry_loads_what_it_uses(statement: str) -> None:
    for guest in ("triton", "inductor"):
        if guest in statement:
            pytest.importorskip({"inductor": "torch"}.get(guest, guest))
    ask = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{ask}"], capture_output=True, text=True, check=True
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    own = [name for name in modules if name.split(".")[0] == "costmodel"]
    assert len(own) <= LOADED[statement]
    if "integrations" in statement or "dispatch" in statement:
        assert not {name.split(".")[0] for name in modules} & set(HEAVY)
