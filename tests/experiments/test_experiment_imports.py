"""Scripts that nobody can run here, for want of a GPU or a package, still import what exists."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
SCRIPTS = sorted(EXPERIMENTS.rglob("*.py"))


@cache
def defined(file: Path) -> frozenset[str]:
    """Names of a module, wherever in it they are bound; those of a face are in its stub."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return frozenset(names)


def source(module: str, *folders: Path) -> Path | None:
    """The file of a module, or the stub of a package, in the first folder that has it."""
    places = [folder.joinpath(*module.split(".")) for folder in folders]
    files = [
        file for at in places for file in (at.with_suffix(".py"), at / "__init__.pyi", at / "__init__.py")
    ]
    return next((file for file in files if file.exists()), None)


def unresolved(script: Path) -> Iterator[str]:
    """What a script imports of costmodel or of its neighbours, in a function too, and is not there."""
    for node in ast.walk(ast.parse(script.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        is_ours = node.module.split(".")[0] == "costmodel"
        file = source(node.module, *([ROOT] if is_ours else [script.parent, EXPERIMENTS]))
        if file is None and is_ours:
            yield f"line {node.lineno}: no module {node.module}"
        elif file is not None:
            modules = {name.name for name in node.names if source(f"{node.module}.{name.name}", ROOT)}
            missing = {name.name for name in node.names} - defined(file) - modules
            yield from (f"line {node.lineno}: {node.module} has no {name}" for name in sorted(missing))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(EXPERIMENTS)))
def test_what_is_imported_exists(script: Path) -> None:
    assert list(unresolved(script)) == []


def test_what_has_moved_is_missed(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "def f():\n    from costmodel.search import NoSampler, Pool\n    from costmodel.gone import x\n"
        "from costmodel.search.samplers import _model\nfrom options import parse\nfrom numpy import zeros\n"
    )
    assert set(unresolved(script)) == {
        "line 2: costmodel.search has no NoSampler",
        "line 3: no module costmodel.gone",
        "line 5: options has no parse",
    }
