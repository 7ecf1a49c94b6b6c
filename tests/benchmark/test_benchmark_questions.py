"""What is known, what is asked, that no answer is in a question, and that each is the published one."""

from pathlib import Path

import numpy as np
import pytest

from costmodel.benchmark import ScoreSheet
from costmodel.benchmark._pose import QUESTIONS, pose
from costmodel.benchmark._question import draw_names
from costmodel.errors import CostModelError
from costmodel.records import Workload

pytestmark = pytest.mark.white_box


SHEET = ScoreSheet.read(Path(__file__).parents[2] / "experiments" / "benchmark" / "result.json")


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_holds_no_answers_and_is_the_published_one(name):
    posed = pose(name)
    assert SHEET.questions[name] == posed.digest
    assert posed.data.items() <= SHEET.data.items()
    question = posed.question
    rows = question.rows
    asked = rows["role"] == "asked"
    assert rows.loc[asked, "latency_s"].isna().all()
    assert rows.loc[~asked, "latency_s"].notna().all()
    assert rows["id"].is_unique
    assert len(question.features) == len(rows)
    assert set(rows.loc[rows["role"] == "measured", "task"]) <= set(rows.loc[asked, "task"])
    assert not set(rows.loc[rows["role"] == "known", "task"]) & set(rows.loc[asked, "task"])


def test_operators_are_held_out_in_every_dtype_and_with_every_epilogue():
    rows = pose("operators").question.rows
    shapes = rows["workload"].map(lambda name: Workload.parse(name).shape.name)
    asked = (rows["role"] == "asked").to_numpy()
    assert not set(shapes[asked]) & set(shapes[~asked])
    assert 0.2 < shapes[asked].nunique() / shapes.nunique() < 0.5


def test_parts_are_asked_where_the_whole_gpu_is_known():
    rows = pose("budgets").question.rows
    assert (rows.loc[rows["role"] == "asked", "sms_granted"] < 132).all()
    known = rows[(rows["role"] == "known") & (rows["sms_granted"] == 132)]
    assert set(rows.loc[rows["role"] == "asked", "workload"]) <= set(known["workload"])


def test_the_other_gpu_is_asked_and_only_the_one_known():
    rows = pose("devices").question.rows
    assert rows.groupby("role")["device"].unique().map(list).to_dict() == {
        "asked": ["NVIDIA H200"],
        "known": ["NVIDIA H100 80GB HBM3"],
    }


def test_fewer_measurements_are_among_more():
    measured = [set(pose(f"few-{n}").question.rows.query("role == 'measured'")["id"]) for n in (1, 4, 16)]
    assert measured[0] < measured[1] < measured[2]
    one = pose("few-1").question
    assert all(len(of_task) == 1 for _, _, of_task in one.asked_tasks())


def test_what_misleads_is_told_of_the_same_kernels_and_fails_where_they_fail():
    honest, misled = pose("honest").question, pose("misled").question
    assert honest.rows["id"].equals(misled.rows["id"])
    known, asked = honest.known, honest.measured
    assert np.array_equal(honest.latency_s[asked], misled.latency_s[asked])
    changed = honest.latency_s[known] != misled.latency_s[known]
    assert changed.mean() > 0.8
    tasks = honest.tasks[known]
    for task in np.unique(tasks)[:20]:
        ran = [np.isfinite(each.latency_s[known][tasks == task]).sum() for each in (honest, misled)]
        assert ran[0] == ran[1]


def test_the_split_follows_from_the_salt_alone():
    first, second = pose("operators"), pose("operators", "another salt")
    assert first.digest == pose("operators").digest
    assert first.digest != second.digest
    assert first.key.latency_s.shape != second.key.latency_s.shape
    # SHA-256("salt/name"), the first 53 bits: anybody can draw the same.
    assert draw_names(["matmul-m1-n1-k1"], "costmodel-bench-1")[0] == pytest.approx(0.252356803)


def test_an_unknown_question_is_refused():
    with pytest.raises(CostModelError, match="A question must be one of operators"):
        pose("operator")
