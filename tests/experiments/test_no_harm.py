"""The experiment on harm learns from other workloads than the one that it searches."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest

from costmodel.learners import Prediction
from costmodel.testing import gpu_landscape
from costmodel.transfer import LearningRows, TransferModel

SCRIPT = Path(__file__).parents[2] / "experiments" / "no_harm" / "run.py"
WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


@pytest.fixture
def script() -> Iterator[ModuleType]:
    before = list(sys.path)
    spec = spec_from_file_location("experiment_no_harm", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before


class Spy(TransferModel):
    """Notes which tasks it is fitted to; knows nothing."""

    def __init__(self, seen: list[set[str]]) -> None:
        self.seen = seen

    def fit(self, X: Any, y: Any, task_ids: Any) -> Self:
        self.seen.append({str(task) for task in task_ids})
        return self

    def predict(self, X: Any) -> Prediction:
        return Prediction(np.zeros(len(X)))

    def adapt(self, X: Any, y: Any) -> Self:
        return self


@pytest.mark.parametrize("searched", WORKLOADS)
def test_what_is_searched_is_not_learned_from(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, searched: str
) -> None:
    seen: list[set[str]] = []
    for name in ("prior", "guard"):
        monkeypatch.setattr(script, name, lambda table, seed: Spy(seen))
    monkeypatch.setattr(script, "FromScratch", lambda: Spy(seen))
    data = LearningRows.of(gpu_landscape(workloads=WORKLOADS, configs_per_workload=8, sms=(8, 132)))
    options = Namespace(seeds=2, orders=1, sms=[8])
    runs = list(script.search_workload(data.rows, data.table, searched, options))
    assert {run["workload"] for run in runs} == {searched}
    # Two that know nothing, and two for each way to spoil the sources, for each seed.
    assert len(seen) == 2 * (2 + 2 * len(script.SOURCES))
    for tasks in seen:
        assert {task.split("@")[0] for task in tasks} == set(WORKLOADS) - {searched}


def test_single_searches_are_counted_beside_means_over_runs(script: ModuleType) -> None:
    at = {"workload": "w", "sms": 8}
    runs = [
        {**at, "source": "", "model": script.SCRATCH, "needed": [10, 10, 10, 10]},
        {**at, "source": "honest", "model": "guarded", "needed": [1, 1, 1, 1]},
        {**at, "source": "wrong unit", "model": "guarded", "needed": [5, 5, 12, 18]},
        {**at, "source": "wrong device", "model": "guarded", "needed": [11, 11, 11, 40]},
    ]
    summary = script.summarise(script.compare(pd.DataFrame(runs)))
    unit, device = (summary.loc[(source, "guarded")] for source in ("wrong unit", "wrong device"))
    assert (unit["no-harm rate"], unit["worst"]) == (1.0, 1.0)  # the mean hides two of four searches
    assert (unit["single no-harm rate"], unit["single above most"], unit["single worst"]) == (0.5, 0.25, 1.8)
    assert (device["no-harm rate"], device["single no-harm rate"], device["single worst"]) == (0.0, 0.75, 4.0)
    together = summary.loc[(script.MISLEADING, "guarded")]
    assert (together["single no-harm rate"], together["single above most"]) == (0.625, 0.25)
    assert together["single worst"] == 4.0


def test_one_measurement_more_is_told_apart_from_many(script: ModuleType) -> None:
    at = {"workload": "w", "sms": 8, "model": "guarded"}
    runs = [
        {**at, "source": "", "model": script.SCRATCH, "needed": [1, 2, 10, 10]},
        {**at, "source": "honest", "needed": [2, 3, 13, 10]},
    ]
    summary = script.summarise(script.compare(pd.DataFrame(runs))).loc[("honest", "guarded")]
    assert summary["single above most"] == 0.75
    assert summary["single above most, by more than one"] == 0.25


def test_the_recorded_summary_is_that_of_the_recorded_searches(script: ModuleType) -> None:
    document = json.loads(SCRIPT.with_name("result.json").read_text())
    again = script.summarise(pd.DataFrame(document["tasks"]))
    recorded = pd.DataFrame(document["summary"]).set_index(["source", "model"])
    # What is recorded of a search is rounded to three places.
    pd.testing.assert_frame_equal(again, recorded, atol=2e-3, rtol=0.0)
