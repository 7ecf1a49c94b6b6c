"""Several runs of learners that depend on a seed, and learners against a baseline, task by task."""

from functools import partial

import numpy as np
import pytest

from costmodel.evaluation import cross_validate
from costmodel.evaluation._cross_validate import seeded_runs
from costmodel.evaluation._judge import RANDOM, FewShot
from costmodel.features._extract import COLUMNS
from costmodel.learners import Prediction, learner_names
from costmodel.testing import gpu_landscape
from costmodel.transfer import TransferModel, make_model

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


class Told(TransferModel):
    """Scores by the value of a column; with a width, intervals around the median latency that it has met."""

    def __init__(self, sign: float, width: float | None = None) -> None:
        self.sign = sign
        self.width = width

    def fit(self, X, y, task_ids):
        self.middle_ = float(np.median(y[np.isfinite(y)]))
        return self

    def predict(self, X):
        score, middle = self.sign * X[:, 0], np.full(len(X), self.middle_)
        if self.width is None:
            return Prediction(score)
        return Prediction(score, middle, middle / self.width, middle * self.width)

    def adapt(self, X, y):
        return self


@pytest.fixture(scope="module")
def data():
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=12, sms=(8, 32, 132))


def test_only_what_depends_on_a_seed_runs_once_a_seed() -> None:
    runs = {name: len(seeded_runs(partial(make_model, name), (0, 1, 2))) for name in learner_names()}
    assert runs["consensus"] == runs["ridge"] == 1
    assert runs["xgboost"] == runs["kernel-ridge"] == 3
    seeds = [make(COLUMNS).learner.seed for make in seeded_runs(partial(make_model, "xgboost"), (4, 7))]
    assert seeds == [4, 7]


def test_runs_are_pooled_and_their_means_are_kept(data) -> None:
    runs = [lambda _columns, sign=sign: Told(sign) for sign in (1.0, -1.0)]
    report = cross_validate(data, {"told": runs})
    entry = report.statistics()[-1]
    first, second = entry["runs"]["score_at_5"]
    assert entry["score_at_5"]["mean"] == pytest.approx((first + second) / 2)
    assert entry["tasks"] == 9
    assert len(report.tasks[report.tasks["learner"] == "told"]) == 18
    for run, mean in enumerate((first, second)):
        own = report.tasks[(report.tasks["learner"] == "told") & (report.tasks["run"] == run)]
        assert own["score_at_5"].mean() == pytest.approx(mean)


def test_tasks_are_counted_once_however_many_runs_measure_them(data) -> None:
    runs = [lambda _columns, sign=sign: Told(sign) for sign in (1.0, -1.0)]
    report = cross_validate(data, {"told": runs}, few_shot=FewShot((0, 2)))
    assert set(report.by_shots()["tasks"]) == set(report.summary()["tasks"]) == {9}


def test_a_comparison_is_paired_by_task(data) -> None:
    report = cross_validate(data, {name: partial(make_model, name) for name in ("ridge", "consensus")})
    compared = {entry["learner"]: entry for entry in report.against("consensus")}
    assert set(compared) == {RANDOM, "ridge"}
    wide = report.tasks.pivot_table(index="task", columns="learner", values="score_at_1")
    difference = wide["ridge"] - wide["consensus"]
    found = compared["ridge"]["score_at_1"]
    assert found["mean_difference"] == pytest.approx(difference.mean())
    assert found["win_rate"] == pytest.approx((difference > 0).mean() + (difference == 0).mean() / 2)
    assert found["ci95"][0] <= difference.mean() <= found["ci95"][1]
    assert compared["ridge"]["tasks"] == 9


def test_coverage_is_counted_over_configs_by_device_and_budget(data) -> None:
    models = {"wide": lambda _columns: Told(1.0, 1e6), "some": lambda _columns: Told(1.0, 2.0)}
    report = cross_validate(data, models)
    entries = {entry["learner"]: entry for entry in report.statistics()}
    assert report.has_intervals
    assert entries["wide"]["coverage"] == 1.0
    assert entries["wide"]["interval_width"] == pytest.approx(1e12)
    assert np.isnan(entries[RANDOM]["coverage"])
    within = 0
    for workload in WORKLOADS:
        train = data.rows[data.rows["workload"] != workload]["latency_s"]
        test = data.rows[data.rows["workload"] == workload]["latency_s"]
        middle = train[np.isfinite(train)].median()
        within += ((test >= middle / 2) & (test <= middle * 2)).sum()
    assert entries["some"]["coverage"] == pytest.approx(within / np.isfinite(data.rows["latency_s"]).sum())
    by_budget = report.by_budget()
    assert by_budget[by_budget["learner"] == "some"]["coverage"].nunique() > 1
    assert set(report.by_device()["device"]) == set(data.rows["device"])
    few_shot = cross_validate(data, models, few_shot=FewShot((0, 4))).by_coverage()
    own = few_shot[few_shot["learner"] == "some"].set_index(["shots", "by", "of"])["coverage"]
    assert own[0, "all", ""] == pytest.approx(entries["some"]["coverage"])
    assert set(own[4, "sms_granted"].index) == {8, 32, 132}
    assert set(own[4, "device"].index) == set(data.rows["device"])
    assert cross_validate(data, {"none": lambda _columns: Told(1.0)}).by_coverage().empty
    assert not cross_validate(data, {"none": lambda _columns: Told(1.0)}).has_intervals
