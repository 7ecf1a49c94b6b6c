"""Shortlists of kernels that are compiled before one is chosen."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from experiment_folder import found_beside

from costmodel.learners import Prediction
from costmodel.transfer import make_model

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "compiled_stage"


@pytest.fixture(scope="module")
def shortlist() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ("shortlist", "judge")):
        yield importlib.import_module("shortlist")


def test_a_shortlist_is_of_the_first_and_chosen_from_by_machine_code(shortlist: ModuleType) -> None:
    rows = pd.DataFrame({"task": ["a"] * 20})
    before = Prediction(-np.arange(20.0), np.ones(20))
    after = Prediction(np.arange(20.0), np.ones(20))
    stack = np.where(np.arange(20) < 3, 100.0, 0.0)

    found = shortlist._choices(before, after, rows, stack)

    first = {name: int(np.argmax(each.score)) for name, each in found.items()}
    assert first == {
        "nothing compiled": 0,
        "no kernel with more than 64 B of stack": 3,
        "the first 4 compiled": 3,
        "the first 8 compiled": 7,
        "the first 16 compiled": 15,
        "all compiled": 19,
    }


@pytest.mark.rehearsal
def test_simple_learners_gain_by_machine_code(
    shortlist: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ridge(history, data, seed):
        return history.fit(make_model("ridge", history.features.columns, seed), np.arange(len(history.rows)))

    monkeypatch.setattr(shortlist, "_fitted", ridge)
    monkeypatch.setattr(shortlist, "DECIDED", shortlist.Recipe("ridge", ("h100-sm-budgets",)))
    monkeypatch.setattr(shortlist, "LEARNED", {"choose": ("learn",)})
    out = tmp_path / "found.json"

    shortlist.main(["choose", "--seeds", "1", "--json", str(out)])

    score = {each["learner"]: each["score_at_1"]["mean"] for each in json.loads(out.read_text())["all"]}
    assert score["nothing compiled"] + 0.02 < score["the first 8 compiled"] < score["all compiled"] + 0.05
