"""Parts of the experiment on kernels of others: what is left out, searched and chosen."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "foreign_spaces"
MODULES = ("run", "rules", "hidden")


@pytest.fixture
def run() -> Iterator[ModuleType]:
    with found_beside(FOLDER, MODULES):
        yield import_module("run")


def sources():
    """Four tasks (column 0) of two architectures (column 1), 60 configs each; a vendor in the last column."""
    rng = np.random.default_rng(0)
    config = np.array([[a, b, c] for a in range(5) for b in range(4) for c in range(3)], dtype=float)
    effects = rng.normal(size=(2, 60))
    X = [np.column_stack([np.tile([t, t % 2], (60, 1)), config, np.full(60, t // 2)]) for t in range(4)]
    y = [1e-4 * np.exp(0.4 * effects[t % 2] + 0.02 * rng.normal(size=60)) for t in range(4)]
    return np.vstack(X), np.concatenate(y), np.repeat(np.arange(4), 60)


def test_a_search_measures_no_config_twice_and_ends_near_the_best(run) -> None:
    X, y, tasks = sources()
    own = tasks == 3
    model = SourceMixture((0, 1), (1,), config_columns=(2, 3, 4)).fit(X[~own], y[~own], tasks[~own])
    order = run.search_recorded(model, X[own], y[own], near=1.01, most=60, least=10)
    assert len(set(order)) == len(order) >= 10
    found = run.judge(model, X[own], y[own])
    needed = found["needed"]
    assert y[own][order[:needed]].min() <= 1.01 * y[own].min() < y[own][order[: needed - 1]].min(initial=1.0)
    assert found["searched"] == sorted(found["searched"])


def test_what_was_tried_finds_a_kernel_too(run) -> None:
    rules = import_module("rules")
    X, y, tasks = sources()
    own = tasks == 3
    for rule in (rules.Blended, rules.ByImportance, rules.OnePrior, rules.ColumnsAlike):
        model = rule((0, 1), config_columns=(2, 3, 4)).fit(X[~own], y[~own], tasks[~own])
        assert run.judge(model, X[own], y[own])["searched"][2] > 0.99


def test_a_rule_is_chosen_by_the_other_kernels(run) -> None:
    needed = {("a", "x"): 1, ("a", "y"): 9, ("b", "x"): 50, ("b", "y"): 2, ("c", "x"): 1, ("c", "y"): 2}
    rows = [
        {
            "kernel": kernel,
            "rule": rule,
            "left out": "device",
            "needed": n,
            "listed": [1.0] * 4,
            "searched": [1.0] * 4,
        }
        for (kernel, rule), n in needed.items()
    ]
    found = run.chosen_elsewhere(pd.DataFrame(rows), "device")
    assert found["rules"] == {"a": "y", "b": "x", "c": "y"}
    assert found["to 1 %: median"] == 9.0


def test_an_architecture_is_left_out_whole(run) -> None:
    class Column:
        def __init__(self, *tags: str) -> None:
            self.tags = tags

    class Table:
        columns = (Column(), Column("architecture"))
        values = np.array([[0, 1.0], [0, 1.0], [0, 2.0]])

    rows = pd.DataFrame({"device": ["A", "B", "C"]})
    of_a, _, of_c = (run.known(fold, Table) for fold in run.leave_devices_out(rows))
    assert {left: list(at) for left, at in of_a.items()} == {("device",): [1, 2], ("architecture",): [2]}
    assert {left: list(at) for left, at in of_c.items()} == {("device", "architecture"): [0, 1]}


def test_near_twins_are_no_sources_of_each_other(run) -> None:
    one, other = import_module("kit.caches").TWINS
    rows = pd.DataFrame({"device": [one, other, "C"]})
    found = {fold.held_out: (list(fold.train), list(fold.test)) for fold in run.leave_devices_out(rows)}
    assert found == {one: ([2], [0]), other: ([2], [1]), "C": ([0, 1], [2])}
