"""Files of questions and of predictions, and what is refused of them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from costmodel.benchmark import run_benchmark, seal, verify, write_predictions, write_tasks
from costmodel.benchmark._entry import open_entry
from costmodel.benchmark._pose import pose
from costmodel.cli import main
from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.learners import Prediction
from costmodel.transfer import LearningRows, make_model
from costmodel.transfer._store import ModelMetadata
from costmodel.transfer.prediction._model import Model

pytestmark = pytest.mark.white_box


@pytest.fixture(scope="module")
def posed():
    return pose("operators")


@pytest.fixture(scope="module")
def answer(posed):
    return open_entry("roofline").answer(posed.question)


@pytest.fixture(scope="module")
def parts():
    question = pose("budgets").question
    return question, open_entry("roofline").answer(question)


@pytest.fixture
def good(tmp_path, posed, answer):
    file = tmp_path / "mine.parquet"
    write_predictions(file, {"operators": (posed.question, answer)})
    return file


def test_a_file_scores_as_the_entry_that_it_is_of(tmp_path, parts):
    question, answer = parts
    file = tmp_path / "mine.parquet"
    write_predictions(file, {"budgets": (question, answer)})
    run = run_benchmark(["budget"], ["roofline", file])
    of = {
        name: [(each.score, each.value, each.versus) for each in run.sheet.lines if each.entry == name]
        for name in ("roofline", "mine")
    }
    assert len(of["mine"]) == 3
    assert of["mine"] == of["roofline"]


def test_a_good_file_is_accepted_as_csv_too(good, tmp_path):
    assert verify(good).questions == ("operators",)
    csv = tmp_path / "mine.csv"
    pd.read_parquet(good).drop(columns="latency_s").to_csv(csv, index=False)
    assert verify(csv).tracks == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.assign(id="0" * 16), "each id must be one that is asked"),
        (lambda rows: pd.concat([rows, rows.head(1)]), "each id must be there once"),
        (lambda rows: rows.iloc[1:], "each id that is asked must be there, but 1 are not"),
        (lambda rows: rows.assign(score=np.inf), "each score must be a finite number, but"),
        (
            lambda rows: rows.assign(latency_s=-rows["latency_s"]),
            "each latency_s must be a finite number above",
        ),
        (lambda rows: rows.assign(question="operator"), "a question must be one of"),
        (lambda rows: rows.drop(columns="score"), "the column score is missing"),
        (lambda rows: rows.head(0), "there is no row"),
        (lambda rows: rows.assign(score="fast"), "numbers in the column score.*enter-the-benchmark"),
        (lambda rows: rows.assign(seed=0.5), "seed must number the runs"),
        (lambda rows: rows.assign(seed=[np.nan] + [0] * (len(rows) - 1)), "seed must number the runs"),
        (lambda rows: pd.concat([rows.assign(seed=0), rows.assign(seed=2)]), "but got 0, 2"),
        (lambda rows: rows.assign(low_s=1.0), "must be given together"),
        (lambda rows: rows.assign(low_s=2.0, high_s=1.0), "low_s must not be above high_s"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(good, change, message):
    change(pd.read_parquet(good)).to_parquet(good)
    with pytest.raises(CostModelError, match=message):
        verify(good)


def test_a_file_that_is_no_submission_is_told_what_one_is(good, tmp_path):
    csv, other = tmp_path / "mine.csv", tmp_path / "mine.json"
    pd.read_parquet(good).to_csv(csv, index=False, sep=";")
    other.write_text("{}")
    for file, message in (
        (csv, "the column id is missing. See docs/how-to/enter-the-benchmark.md"),
        (other, "ends in .parquet or .csv"),
        (tmp_path / "nothing.parquet", "No such file"),
    ):
        with pytest.raises(CostModelError, match=message):
            verify(file)


def test_entries_are_told_apart_by_their_names_and_answer_something(good, parts, tmp_path):
    question, answer = parts
    twin, named_as_ours = tmp_path / "other" / "mine.parquet", tmp_path / "from-nothing.parquet"
    for file in (twin, named_as_ours):
        write_predictions(file, {"budgets": (question, answer)})
    for entries in ([twin, twin], [named_as_ours], ["roofline", "roofline"]):
        with pytest.raises(CostModelError, match="must have a name of its own"):
            run_benchmark(["budget"], entries)
    with pytest.raises(CostModelError, match="must answer a question of the tracks, budgets"):
        run_benchmark(["budget"], [good])


def test_the_answers_themselves_are_refused(tmp_path, posed):
    key = posed.key.latency_s
    seconds = np.where(np.isfinite(key), key, 1.0)
    for name, told, message in (
        ("seconds", Prediction(np.zeros(len(key)), seconds), "nearer than a second measurement"),
        ("order", Prediction(-np.where(np.isfinite(key), key, 1e9)), "choose the best kernel of every one"),
    ):
        write_predictions(tmp_path / f"{name}.parquet", {"operators": (posed.question, told)})
        with pytest.raises(CostModelError, match=message):
            verify(tmp_path / f"{name}.parquet")


def test_a_model_that_learned_from_what_is_asked_is_refused(tmp_path, posed):
    dataset = load_dataset("sampled-sm-budgets")
    data = LearningRows.of(dataset)
    columns = data.features.columns
    known = ~data.rows["workload"].isin(posed.question.rows["workload"].to_numpy()[posed.question.asked])
    at = np.flatnonzero(known)[:500]
    fitted = data.fit(make_model("ridge", columns), at)
    told = ModelMetadata(
        columns=tuple(column.name for column in columns),
        workloads=tuple(data.rows["workload"].iloc[at].unique()),
    )
    Model(fitted, told).save(tmp_path / "clean.costmodel")
    assert verify(tmp_path / "clean.costmodel").questions == ("operators",)
    seen = structs.replace(told, workloads=tuple(dataset.workloads))
    Model(fitted, seen).save(tmp_path / "leaky.costmodel")
    with pytest.raises(CostModelError, match="must not have learned from what is asked, but did from"):
        verify(tmp_path / "leaky.costmodel")


def test_questions_as_files_hold_no_answer(tmp_path, posed):
    write_tasks(tmp_path, ["rank"])
    known, asked = (
        pd.read_parquet(tmp_path / "operators" / f"{part}.parquet") for part in ("known", "asked")
    )
    assert "latency_s" not in asked
    assert set(asked["id"]) == set(posed.question.rows["id"].to_numpy()[posed.question.asked])
    assert not set(asked["task"]) & set(known["task"])
    told = json.loads((tmp_path / "questions.json").read_text())
    assert told["questions"]["operators"]["asked"] == len(asked)
    assert told["questions"]["operators"]["sha256"] == posed.digest


def test_the_command_verifies_and_says_what_is_answered(good, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["costmodel", "bench", "verify", str(good)])
    with pytest.raises(SystemExit):
        main()
    assert "Accepted: mine answers operators." in capsys.readouterr().out


def test_a_seal_is_of_the_rows_and_not_of_the_file(tmp_path):
    dataset = load_dataset("h100-sm-budgets", workloads=["softmax-m12288-n512"])
    found = seal(dataset)
    turned = replace(dataset, measurements=dataset.measurements.iloc[::-1].reset_index(drop=True))
    assert seal(turned) == found
    assert seal(dataset, found) == found
    changed = dataset.measurements.assign(latency_s=dataset.measurements["latency_s"] * 1.001)
    with pytest.raises(CostModelError, match="must have the hash that was published"):
        seal(replace(dataset, measurements=changed), found)


def test_seeds_in_a_file_are_runs(tmp_path, parts):
    question, answer = parts
    file, both = tmp_path / "runs.parquet", []
    for seed, each in enumerate((answer, replace(answer, score=-answer.score))):
        write_predictions(file, {"budgets": (question, each)})
        both.append(pd.read_parquet(file).assign(seed=seed))
    pd.concat(both).to_parquet(file)
    run = run_benchmark(["budget"], [file, "roofline"])
    found = {(each.entry, each.score): each for each in run.sheet.lines}
    mine = found["runs", "score_at_1"]
    assert mine.seeds[0] == found["roofline", "score_at_1"].value
    assert mine.value == pytest.approx(np.mean(mine.seeds), abs=1e-3)
