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

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "compiled_stage"


@pytest.fixture(scope="module")
def shortlist() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ("shortlist", "judge", "stages")):
        yield importlib.import_module("shortlist")


@pytest.fixture(scope="module")
def stages(shortlist: ModuleType) -> ModuleType:
    return importlib.import_module("stages")


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
    monkeypatch.setattr(shortlist, "LEARNER", "ridge")
    monkeypatch.setattr(shortlist, "DECIDED", shortlist.Recipe("ridge", ("h100-sm-budgets",)))
    monkeypatch.setattr(shortlist, "LEARNED", {"choose": ("learn",)})
    out = tmp_path / "found.json"

    shortlist.main(["choose", "--seeds", "1", "--json", str(out)])

    score = {each["learner"]: each["score_at_1"]["mean"] for each in json.loads(out.read_text())["all"]}
    assert score["nothing compiled"] + 0.02 < score["the first 8 compiled"] < score["all compiled"] + 0.05


def test_the_gap_is_pooled_over_parts_of_the_device(stages: ModuleType) -> None:
    known = {132: {"a": 1.0, "b": 2.0}, 8: {"a": 3.0, "b": 1.5}}
    loss = float(np.log(2.0))
    assert stages._whole_device(known, 8) == {"whole_excess": pytest.approx(loss)}
    rows = pd.DataFrame(
        {
            "recipe": "staged",
            "trials": 2,
            "sms": [8, 64, 132],
            "excess": [0.0, loss, 3 * loss],
            "whole_excess": [loss, loss, stages._whole_device(known, 132)["whole_excess"]],
        }
    )
    (found,) = stages.summary(rows)
    assert (found["gap"], found["gap_small"], found["searches"]) == (pytest.approx(0.5), 1.0, 3)
    assert found["score"] == pytest.approx((1.0 + 0.5 + 0.125) / 3)


@pytest.mark.rehearsal
def test_searches_are_replayed_with_and_without_the_stage(
    shortlist: ModuleType, stages: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shortlist, "LEARNER", "ridge")
    monkeypatch.setattr(shortlist, "LEARNED", {"choose": ("learn",)})
    monkeypatch.setattr(stages, "DECIDED", shortlist.Recipe("ridge", ("h100-sm-budgets",)))
    out = tmp_path / "found.json"

    stages.main(["choose", "--every", "100", "--json", str(out)])

    found = json.loads(out.read_text())["rows"]
    assert [each["measured"] for each in found] == [1, 2, 4, 8] * 2
    assert {each["searches"] for each in found} == {6}
    score = {(each["recipe"], each["measured"]): each["score"] for each in found}
    assert score["4 compiled for each measured", 8] > score["4 compiled for each measured", 1]
    assert score["decisions alone", 1] < score["4 compiled for each measured", 1]
