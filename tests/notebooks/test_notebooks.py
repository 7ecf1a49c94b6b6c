"""The notebooks use the package and define nothing, and run from top to bottom on the data that ship."""

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from notebook_runs import NOTEBOOKS, execute, read
from test_packaging import parse

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.notebook

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)

# What a reader needs who opens them: the package, what it depends on, and the standard library.
IMPORTED = {
    *("costmodel", "numpy", "pandas", "matplotlib", "optuna", "msgspec", "IPython"),
    *("functools", "json", "pathlib", "tempfile", "warnings"),
}
# One measures on this machine, and so builds kernels; one reads a Relax module.
NEEDS_TVM = ("04_bring_your_own_gpu", "06_plan_a_model")


def codes(notebook: "NotebookNode") -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: "NotebookNode") -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def nodes(notebook: "NotebookNode") -> Iterator[ast.AST]:
    for code in codes(notebook):
        yield from ast.walk(ast.parse(code))


def outputs(notebook: "NotebookNode") -> "list[NotebookNode]":
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def texts(notebook: "NotebookNode") -> list[str]:
    """What is put out as text, but for the names of pictures and their sizes."""
    shown = []
    for output in outputs(notebook):
        data = output.get("data", {})
        if "image/png" not in data:
            shown.append(output.get("text") or data.get("text/markdown") or data.get("text/plain"))
    return shown


def kinds(notebook: "NotebookNode") -> list[tuple[str, tuple[str, ...]]]:
    """Of what each cell puts out; text that came in several pieces, as from a slow machine, is one."""
    found = []
    for cell in (each for each in notebook.cells if each.cell_type == "code"):
        told = [(output.output_type, tuple(sorted(output.get("data", {})))) for output in cell.outputs]
        for kind, same in groupby(told):
            found += [kind] if kind[0] == "stream" else same
    return found


def test_there_are_eight() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == ["00", "01", "02", "03", "04", "05", "06", "07"]


@each
def test_it_defines_nothing(path: Path) -> None:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    assert not [ast.unparse(node) for node in nodes(read(path)) if isinstance(node, defined)]


@each
def test_it_uses_only_what_is_public(path: Path) -> None:
    modules: list[str] = []
    for node in nodes(read(path)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), ast.unparse(node)
    assert {module.partition(".")[0] for module in modules} <= IMPORTED
    assert not [module for module in modules if "._" in module]


@each
def test_its_prose_states_no_figures_that_a_cell_could_compute(path: Path) -> None:
    """Shares, decimals and times: they would outlive the data that they were read from."""
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", prose(read(path)), flags=re.DOTALL)
    figures = re.findall(r"\b\d+\.\d+|\b\d+ ?(?:%|µs|us|ms)", text)
    # The promise of an interval, the rule of a picture, and what a Shapley value means: given, not found.
    given = {"80%", "90%", "0.7"}
    assert set(figures) <= given


@each
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", prose(read(path)))
    assert links
    assert not [link for link in links if not (path.parent / link).exists()]


def test_command_lines_parse() -> None:
    lines = [
        line
        for path in NOTEBOOKS
        for block in re.findall(r"```sh\n(.*?)```", prose(read(path)), re.DOTALL)
        for line in re.findall(r"^costmodel .*$", block, re.MULTILINE)
    ]
    assert len(lines) > 5
    for line in lines:
        parse(line)


@each
def test_what_is_kept_of_it_is_small_and_of_nobody(path: Path) -> None:
    assert path.stat().st_size < 400_000
    raw = path.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:root|home|tmp|work|Users)/", raw)
    notebook = read(path)
    assert all(not cell.metadata for cell in notebook.cells)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1)), "run it: python tests/notebooks/notebook_runs.py"


@each
def test_it_runs(path: Path) -> None:
    """With the outputs that are kept, no word on stderr, and without packages that it does not need."""
    kept = read(path)
    done = execute(path, without=("torch", "triton", *(() if path.stem in NEEDS_TVM else ("tvm",))))
    assert not [output.text for output in outputs(done) if output.get("name") == "stderr"]
    assert kinds(done) == kinds(kept)
    if path.stem.startswith("02"):  # counts and quantiles; the others depend on a model's arithmetic
        assert texts(done) == texts(kept)
