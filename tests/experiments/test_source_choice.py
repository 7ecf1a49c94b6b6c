"""Parts of the experiment on how a search begins with sources, and when it leaves them."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from experiment_folder import found_beside

FOLDER = Path(__file__).parents[2] / "experiments" / "source_choice"


@pytest.fixture
def run() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ("run", "rules")):
        yield import_module("run")


def table(run: ModuleType, needed: dict[str, list[int]], kind: str, kernel: str = "k") -> pd.DataFrame:
    return pd.DataFrame(
        {"kind": kind, "kernel": kernel, "case": str(case), "rule": rule, "needed": count}
        for rule, counts in needed.items()
        for case, count in enumerate(counts)
    )


def test_a_rule_that_is_behind_the_plain_mean_too_often_is_not_chosen(run) -> None:
    fast_but_wild = {run.PLAIN: [9] * 8, "steady": [8] * 8, "wild": [1] * 6 + [30] * 2}
    assert run.choose(table(run, fast_but_wild, run.OURS)) == "steady"
    seldom = fast_but_wild | {"wild": [1] * 7 + [10]}
    assert run.choose(table(run, seldom, run.OURS)) == "wild"
    assert run.choose(table(run, {run.PLAIN: [1] * 8, "worse": [9] * 8}, run.OURS)) == run.PLAIN


def test_a_kernel_has_no_part_in_the_choice_of_its_rule(run) -> None:
    parts = [
        table(run, {run.PLAIN: [9], "a": [1], "b": [5]}, run.MISLED, "x"),
        table(run, {run.PLAIN: [9], "a": [9], "b": [1]}, run.MISLED, "y"),
        table(run, {run.PLAIN: [9], "a": [7], "b": [8]}, run.REPORTED, "x"),
        table(run, {run.PLAIN: [9], "a": [7], "b": [8]}, run.REPORTED, "y"),
    ]
    found = pd.concat(parts)
    assert run.choosing(found) == {"x": "b", "y": "a"}
    assert run.reported(found)["chosen on the other kernels"]["mean"] == 7.5
