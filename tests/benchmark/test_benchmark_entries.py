"""Entries that come with the benchmark, learners by name, and entries of one's own."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from costmodel.benchmark import BenchEntry, ScoreSheet, run_benchmark
from costmodel.benchmark._entry import open_entry, shipped_entries
from costmodel.benchmark._pose import pose
from costmodel.errors import CostModelError
from costmodel.learners import Prediction

pytestmark = pytest.mark.white_box

QUICK = [
    name
    for name, entry in shipped_entries().items()
    if not entry.is_extra
    and not name.endswith(("-kernel-ridge", "-compiled", "-decided", "-known-elsewhere", "gptune"))
]


@cache
def ask(name):
    """Every eighth workload of a question, known and asked."""
    question = pose(name).question
    taken = pd.factorize(question.rows["workload"])[0] % 8 == 0
    rows = question.rows[taken].reset_index(drop=True)
    return replace(question, rows=rows, features=question.features[taken])


@pytest.mark.parametrize("name", QUICK)
def test_an_entry_answers_every_asked_row_the_same_each_time(name):
    entry = open_entry(name)
    for question in map(ask, ("operators", "kernels", "products", "budgets", "few-1")):
        if entry.can_answer(question):
            first, second = entry.answer(question), entry.answer(question)
            assert first.score.shape == question.asked.shape
            assert np.isfinite(first.score).all()
            assert np.array_equal(first.score, second.score)
            if first.latency_s is not None:
                assert (first.latency_s > 0).all()


def test_names_are_unique_and_each_entry_says_what_it_is():
    assert len(shipped_entries()) >= 15
    for name, entry in shipped_entries().items():
        assert entry.name == name
        assert len(entry.about) > 10
        assert entry.made_by in ("reference", "rule", "others", "costmodel")


class Mine(BenchEntry):
    name, made_by = "mine", "yours"

    def answer(self, question, seed=0):
        return Prediction(-question.column("log2_analytic_s")[question.asked])

    def can_answer(self, question):
        return question.name == "budgets"


def test_an_entry_of_ones_own_is_judged_beside_the_baseline(tmp_path):
    run = run_benchmark(["budget"], [Mine()])
    lines = {each.entry: each for each in run.sheet.lines if each.score == "score_at_1"}
    assert set(lines) == {"mine", "costmodel-known-elsewhere", "from-nothing"}
    mine = lines["mine"]
    assert mine.low < mine.value < mine.high
    assert mine.versus == pytest.approx(mine.value - lines["costmodel-known-elsewhere"].value, abs=2e-4)
    run.sheet.write(tmp_path / "sheet.json")
    assert ScoreSheet.read(tmp_path / "sheet.json") == run.sheet
    again = run_benchmark(["budget"], [Mine()])
    assert again.sheet.to_json() == run.sheet.to_json()
    assert "mine" in run.sheet.to_markdown()


class Broken(Mine):
    def answer(self, question, seed=0):
        return Prediction(np.full(len(question.asked), np.nan))


def test_an_answer_that_is_not_finite_is_refused():
    with pytest.raises(CostModelError, match="The score of an answer must be"):
        run_benchmark(["budget"], [Broken()])


def test_names_that_are_not_known_are_refused_before_any_work():
    with pytest.raises(CostModelError, match="An entry must be one of random"):
        run_benchmark(["budget"], ["xgbost"])
    with pytest.raises(CostModelError, match="A track must be one of rank"):
        run_benchmark(["ranks"])
