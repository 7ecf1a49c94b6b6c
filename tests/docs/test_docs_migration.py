"""What moved since 0.3, by the release notes: former forms work and warn, new forms are there."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from code_blocks import ROOT

import costmodel
from costmodel import former

NOTES = (ROOT / "docs/release-notes.md").read_text().partition("## 0.3.0")[0]
ROWS = re.findall(r"^\| (.*`.*) \| (.*`.*) \|$", NOTES, re.MULTILINE)
IMPORTS = [(before.strip("`"), now.strip("`")) for before, now in ROWS if before.startswith("`from ")]
FORMER_CALLS = sorted(
    {span for before, _ in ROWS for span in re.findall(r"`((?:tune|evaluate)\(.*?\))`", before)}
)
# What the calls of the table name. A workload or a dataset that nobody knows ends them before any work.
GIVEN = {
    "w": "conv9d-n1",
    "d": "sm-budgets",
    "e": "sm-budgets",
    "m": None,
    "s": [4],
    "a": "no-data",
    "b": "no-data",
}


def names(statement: str) -> list[tuple[str, str]]:
    """Module and name of what an import takes."""
    (node,) = ast.parse(statement).body
    assert isinstance(node, ast.ImportFrom)
    return [(str(node.module), alias.name) for alias in node.names]


def calls(text: str) -> Iterator[ast.Call]:
    """The calls in code spans, those of arguments too."""
    for span in re.findall(r"`([^`]+)`", text):
        try:
            tree = ast.parse(f"f({span})" if re.fullmatch(r"\w+=.*", span) else span)
        except SyntaxError:
            continue
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.parametrize(("before", "now"), IMPORTS)
def test_a_former_import_warns_and_gives_what_the_new_one_gives(before: str, now: str) -> None:
    for (module, name), (package, current) in zip(names(before), names(now), strict=True):
        with pytest.warns(DeprecationWarning, match=f"write from {package} import {current}."):
            found = getattr(import_module(module), name)
        assert found is getattr(import_module(package), current)
        assert current in import_module(package).__all__


@pytest.mark.parametrize("before", [before for before, _ in IMPORTS])
def test_a_former_import_warns_once_a_name(before: str) -> None:
    with pytest.warns(DeprecationWarning, match="write from") as seen:
        exec(before, {})
    assert len(seen) == len(names(before))


def test_every_module_and_name_that_moved_is_in_the_table() -> None:
    told = {place for before, _ in IMPORTS for place in names(before)}
    assert {module for module, _ in told} == {"costmodel", *former.MOVED_MODULES}
    assert {f"{module}.{name}" for module, name in told} >= set(former.MOVED_NAMES)


@pytest.mark.parametrize("call", FORMER_CALLS)
def test_a_former_call_is_understood_with_a_warning(call: str) -> None:
    called = {"tune": costmodel.tune, "evaluate": partial(costmodel.evaluate, "no-data")}
    with pytest.warns(DeprecationWarning, match="is now written"), pytest.raises(costmodel.CostModelError):
        eval(call, called | GIVEN)


@pytest.mark.parametrize("now", [now for _, now in ROWS if "(" in now])
def test_a_new_call_has_the_arguments_that_the_table_shows(now: str) -> None:
    for call in calls(now):
        function: Any = costmodel
        for part in ast.unparse(call.func).removeprefix("costmodel.").split("."):
            function = getattr(function, part, None)
        if function is not None and "..." not in ast.unparse(call):
            keywords = {str(each.arg): None for each in call.keywords}
            assert set(keywords) <= set(inspect.signature(function).parameters), ast.unparse(call)
            inspect.signature(function).bind(*call.args, **keywords)


def test_what_a_result_no_longer_has_is_told_with_the_new_form() -> None:
    with pytest.raises(AttributeError, match=r"remarks says .*Beside\(runner, log, on_end=print\)"):
        vars(costmodel.TuneResult)["service"].fget(None)


def test_a_former_module_says_where_to_look_for_what_it_no_longer_has() -> None:
    with pytest.raises(ImportError, match=r"costmodel\.learners, without win_rate"):
        exec("from costmodel.metrics import win_rate")
    with pytest.raises(ModuleNotFoundError, match=r"costmodel\.metricks"):
        import_module("costmodel.metricks")
