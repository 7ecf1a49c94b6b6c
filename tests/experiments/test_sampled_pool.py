"""Recipes are judged on a part of the sampled pool that they learned nothing from."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from experiment_folder import found_beside

from costmodel.collector import find_campaign

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "sampled_pool"


@pytest.fixture(scope="module")
def judge() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ("judge",)):
        yield importlib.import_module("judge")


def test_what_learns_from_the_pool_learns_from_its_first_part_alone(judge):
    listed = find_campaign("sampled-sm-budgets").workloads
    rows = judge.rows_of((judge.POOL,)).rows
    assert set(rows["workload"]) <= set(listed[:64])
    parts = [set(judge.part_of_pool(part).measured_workloads) for part in judge.PARTS]
    assert [len(part) for part in parts] == [58, 45, 47]
    assert not parts[0] & parts[1]
    assert not parts[2] & (parts[0] | parts[1])


def test_recipes_are_judged_beside_the_whole_devices_choice(judge, tmp_path, capsys):
    recipes = tmp_path / "recipes.toml"
    recipes.write_text(
        '[ridge]\nlearner = "ridge"\ndata = ["h100-sm-budgets"]\nseeds = 2\n'
        '[consensus]\nlearner = "consensus"\ndata = ["sampled-sm-budgets"]\n'
    )
    told = []
    for _ in range(2):  # the second time with the models of the first
        out = tmp_path / "judged.json"
        judge.main(["choose", str(recipes), "--models", str(tmp_path / "models"), "--json", str(out)])
        told.append(json.loads(out.read_text()))
        assert "| consensus |" in capsys.readouterr().out
    assert told[0] | {"seconds": {}} == told[1] | {"seconds": {}}
    assert len(list((tmp_path / "models").iterdir())) == 3
    published = json.loads((FOLDER / "result.json").read_text())["rows"]
    expected = {row["sms"]: row["whole_device_choice"] for row in published if row["part"] == "choose"}
    found = {
        row["sms_granted"]: row["score_at_1"] for row in told[0]["by_sms"] if row["learner"] == "whole device"
    }
    assert found == pytest.approx(expected, abs=1e-4)
