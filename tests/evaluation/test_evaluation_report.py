import json
import math
from functools import partial

import msgspec
import numpy as np
import pandas as pd
import pytest

from costmodel.dataset import Dataset, make_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.errors import CostModelError
from costmodel.evaluation import cross_validate, judge
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.files import write_json
from costmodel.learners import Prediction
from costmodel.testing import gpu_landscape
from costmodel.transfer import TransferModel, make_model
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


class Spy(TransferModel):
    """Notes what it is trained on; a constant score, or the truth, keyed by the row."""

    def __init__(self, seen: list, truth: dict | None = None) -> None:
        self.seen = seen
        self.truth = truth

    def fit(self, X, y, task_ids):
        self.seen.append(set(task_ids))
        return self

    def predict(self, X):
        if self.truth is None:
            return Prediction(np.zeros(len(X)))
        latency_s = np.array([self.truth[row.tobytes()] for row in X])
        return Prediction(-latency_s, np.where(np.isfinite(latency_s), 1.1 * latency_s, 1.0))

    def adapt(self, X, y):
        raise NotImplementedError


@pytest.fixture(scope="module")
def data():
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=16, sms=(8, 32, 132))


@pytest.fixture(scope="module")
def truth(data):
    from costmodel.transfer import LearningRows

    rows = LearningRows.of(data)
    return {row.tobytes(): value for row, value in zip(rows.table.values, rows.latency_s, strict=True)}


@pytest.fixture(scope="module")
def report(data, truth):
    return cross_validate(
        data,
        {
            "oracle": lambda _columns: Spy([], truth),
            "constant": lambda _columns: Spy([]),
            "ridge": partial(make_model, "ridge"),
        },
    )


def entry(report, learner):
    return next(item for item in report.statistics() if item["learner"] == learner)


def test_training_never_sees_the_held_out_workload(data) -> None:
    seen: list[set[str]] = []
    split = make_split(data, SplitRecipe("leave-one-workload-out"))
    cross_validate(data, {"spy": lambda _columns: Spy(seen)}, split=split)
    folds = [fold.held_out for fold in split.folds]
    assert sorted(folds) == sorted(WORKLOADS)
    for held_out, tasks in zip(folds, seen, strict=True):
        assert not any(task.startswith(f"{held_out}@") for task in tasks)
        assert len(tasks) == 6


def test_shots_are_seen_and_not_judged(data) -> None:
    seen: list[set[str]] = []
    split = make_split(data, SplitRecipe("few-shot", shots=4), "four")
    report = cross_validate(data, {"spy": lambda _columns: Spy(seen)}, split=split)
    assert report.split == "four"
    assert [len(tasks) for tasks in seen] == [9, 9, 9]
    # The references are judged on the same rows as learners.
    assert set(report.tasks["configs"]) == {12}
    assert set(report.tasks["learner"]) == {RANDOM, WHOLE_DEVICE, "spy"}


def test_references_are_judged_on_the_test_rows_of_a_random_split(data) -> None:
    split = make_split(data, SplitRecipe("random", share=0.5))
    report = cross_validate(data, {}, split=split)
    tested = data.rows.iloc[split.folds[0].test]
    for task, results in report.tasks[report.tasks["learner"] == WHOLE_DEVICE].groupby("task"):
        rows = tested[tested["task"] == task]
        whole = data.rows[(data.rows["sms_granted"] == 132) & data.rows["candidate"].isin(rows["candidate"])]
        order = rows.set_index("candidate")["latency_s"][
            whole.sort_values("latency_s", kind="stable")["candidate"]
        ]
        assert results["score_at_1"].tolist() == [pytest.approx(rows["latency_s"].min() / order.iloc[0])]


def test_intervals_draw_by_what_was_held_out(data) -> None:
    assert cross_validate(data, {}).cluster == "workload"
    assert cross_validate(data, {}, split="leave-one-budget-out").cluster == "workload"
    other = pd.concat(
        [data.measurements, data.measurements.assign(platform=data.measurements["platform"] + 3)]
    )
    device = msgspec.structs.replace(data.platforms[0].device, name="NVIDIA RTX A4000", architecture="")
    platforms = (*data.platforms, *(msgspec.structs.replace(p, device=device) for p in data.platforms))
    two = Dataset(data.candidates, platforms, other.reset_index(drop=True))
    for recipe in (
        SplitRecipe("leave-one-device-out", keep_twins_apart=True),
        SplitRecipe("leave-one-architecture-out"),
    ):
        assert cross_validate(two, {}, split=make_split(two, recipe)).cluster == "device"


def test_nothing_to_hold_out_and_unknown_split_are_errors() -> None:
    single = gpu_landscape(workloads=WORKLOADS[:1], configs_per_workload=4, sms=(8,))
    with pytest.raises(CostModelError, match="needs at least two"):
        cross_validate(single, {})
    with pytest.raises(CostModelError, match="split must be one of"):
        cross_validate(single, {}, split="by-magic")


def test_oracle_is_perfect_and_a_constant_is_a_draw(report) -> None:
    oracle, constant = entry(report, "oracle"), entry(report, "constant")
    assert oracle["score_at_1"] == {"median": 1.0, "p10": 1.0, "mean": 1.0, "mean_ci95": [1.0, 1.0]}
    assert (oracle["regret_error"], oracle["n_eps"], oracle["gap_recovered"]) == (0.0, 1.0, 1.0)
    assert oracle["latency_error"] == pytest.approx(0.1)
    assert oracle["latency_bias"] == pytest.approx(1.1)
    assert math.isnan(constant["latency_bias"])
    at_random = entry(report, RANDOM)
    for name in ("median", "p10", "mean", "mean_ci95"):
        assert constant["score_at_1"][name] == pytest.approx(at_random["score_at_1"][name])
    assert constant["n_eps"] == pytest.approx(at_random["n_eps"])
    assert entry(report, "ridge")["score_at_5"]["mean"] > entry(report, RANDOM)["score_at_5"]["mean"]


def test_a_failing_choice_scores_nothing_and_the_next_one_that_runs_counts() -> None:
    latency_s = np.array([2.0, math.inf, 1.0, 4.0])
    result = judge(Prediction(np.array([2.0, 3.0, 1.0, 0.0])), latency_s)
    assert (result["score_at_1"], result["regret_error"], result["n_eps"]) == (0.0, math.inf, 3.0)
    assert result["log_excess"] == pytest.approx(math.log(2.0))


def test_whole_device_choice_is_the_best_of_the_largest_budget(data, report) -> None:
    table = data.rows.pivot_table(index=["workload", "candidate"], columns="sms_granted", values="latency_s")
    expected = []
    for workload in WORKLOADS:
        times = table.loc[workload].replace(np.inf, np.nan).dropna()
        chosen = times[132].idxmin()
        expected.append(times[8].min() / times[8][chosen])
    tasks = report.tasks[(report.tasks["learner"] == WHOLE_DEVICE) & (report.tasks["sms_granted"] == 8)]
    assert sorted(tasks["score_at_1"]) == pytest.approx(sorted(expected))
    assert entry(report, WHOLE_DEVICE)["gap_recovered"] == pytest.approx(0.0)


def test_gap_by_budget_pools_logs_and_is_undefined_on_the_whole_device(report) -> None:
    by_budget = report.by_budget().set_index(["learner", "sms_granted"])["gap_recovered"]
    tasks = report.tasks[report.tasks["sms_granted"] == 8].pivot_table(
        index="task", columns="learner", values="log_excess"
    )
    expected = 1 - tasks["ridge"].sum() / tasks[WHOLE_DEVICE].sum()
    assert by_budget["ridge", 8] == pytest.approx(expected)
    assert math.isnan(by_budget["ridge", 132])
    assert by_budget["oracle", 8] == 1.0


def test_report_becomes_json(report, tmp_path) -> None:
    write_json(tmp_path / "report.json", report.to_dict())
    read = json.loads((tmp_path / "report.json").read_text())
    assert {item["learner"] for item in read["summary"]} == {
        RANDOM,
        WHOLE_DEVICE,
        "oracle",
        "constant",
        "ridge",
    }
    assert len(read["tasks"]) == 5 * 9
    assert "has seen measurements" in read["note"]
    assert pd.DataFrame(read["by_budget"])["gap_recovered"].isna().any()


@pytest.mark.parametrize("by", [None, "budget", "learner"])
def test_a_report_is_drawn_and_shown(report, tmp_path, by) -> None:
    figure = report.plot(tmp_path / "deep" / "report.png", by=by)
    for png in ((tmp_path / "deep" / "report.png").read_bytes(), figure._repr_png_()):
        assert png.startswith(b"\x89PNG\r\n\x1a\n")


def test_a_report_is_drawn_by_what_there_is(report) -> None:
    with pytest.raises(CostModelError, match="drawn by budget, shots, learner, but got 'magic'"):
        report.plot(by="magic")
    with pytest.raises(CostModelError, match="nothing was measured"):
        report.plot(by="shots")


def test_the_summary_is_a_table_of_what_the_statistics_say(report) -> None:
    table = report.summary()
    assert list(table.index) == report.learners
    for found in report.statistics():
        row, score = table.loc[found["learner"]], found["score_at_1"]
        assert row["score_at_1"] == score["mean"]
        assert [row["score_at_1_low"], row["score_at_1_high"]] == score["mean_ci95"]
        assert row["gap_recovered"] == pytest.approx(found["gap_recovered"])
    # Nobody told intervals: there is no column for them.
    assert "coverage" not in table


def test_a_report_shows_itself_in_a_few_lines(report) -> None:
    assert repr(report) == "EvaluationReport(leave-one-workload-out: 3 learners on 9 tasks, best oracle)"
    shown = report._repr_html_()
    assert "oracle" in shown
    assert len(shown) < 5000


def test_no_learner_is_named_as_a_reference_is(data) -> None:
    with pytest.raises(CostModelError, match="must not have the name of a reference, but got 'random'"):
        cross_validate(data, {RANDOM: partial(make_model, "ridge")})


def test_train_holds_out_what_it_is_told(data) -> None:
    seen = []
    model = train(data, lambda _columns: Spy(seen), hold_out=WORKLOADS[:1])
    assert not any(task.startswith(WORKLOADS[0]) for task in seen[0])
    about = model.metadata
    assert set(about.workloads) == set(WORKLOADS[1:])
    assert (about.tasks, about.rows) == (6, 96)
    assert len(model.held_out_tasks) == 3
    assert 0 < about.metrics["score_at_1"] < 1


def test_train_learns_from_no_sibling_of_what_is_held_out() -> None:
    workload, sibling = WORKLOADS[0], f"{WORKLOADS[0]}-float16"
    seen: list[set[str]] = []
    model = train(
        gpu_landscape(workloads=(*WORKLOADS, sibling), configs_per_workload=8, sms=(8, 132)),
        lambda _columns: Spy(seen),
        hold_out=[workload],
    )
    assert set(model.metadata.workloads) == set(WORKLOADS[1:])
    assert {task.partition("@")[0] for task in seen[0]} == set(WORKLOADS[1:])
    assert set(model.held_out_tasks["workload"]) == {workload}


def test_train_refuses_to_hold_out_everything_or_what_is_not_there(data) -> None:
    with pytest.raises(CostModelError, match="but got conv2d-x"):
        train(data, "ridge", hold_out=["conv2d-x"])
    with pytest.raises(CostModelError, match="leave another shape"):
        train(data, "ridge", hold_out=WORKLOADS)
    assert train(data, "ridge").metadata.metrics == {}
