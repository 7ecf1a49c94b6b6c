"""Tasks that are measured: in which order, and what is known after each measurement."""

import math
from functools import partial
from typing import Self

import numpy as np
import pytest

from costmodel.dataset import make_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.dataset.table._read import dataset_from_measurements
from costmodel.errors import CostModelError
from costmodel.evaluation import cross_validate
from costmodel.evaluation._judge import (
    RANDOM,
    WHOLE_DEVICE,
    FewShot,
    Fixed,
    measure_at_random,
    measure_in_turn,
)
from costmodel.learners import Prediction
from costmodel.learners._metrics import n_eps
from costmodel.testing import gpu_landscape
from costmodel.transfer import TransferModel, make_model

pytestmark = pytest.mark.white_box

INF = math.inf
LATENCY = np.array([4.0, INF, 2.0, 1.0, 8.0])


class Learns:
    """Believes that configs rank by number; once told of any, knows the truth. Notes what it is told."""

    def __init__(self, told: list[list[float]]) -> None:
        self.told = told

    def predict(self, X: np.ndarray) -> Prediction:
        return Prediction(-X[:, 0])

    def adapt(self, X: np.ndarray, y: np.ndarray) -> Fixed:
        self.told.append(X[:, 0].tolist())
        return Fixed(Prediction(-LATENCY, np.where(np.isfinite(LATENCY), LATENCY, 1.0)))


class Blind(TransferModel):
    """Tells no configs apart."""

    def fit(self, X: np.ndarray, y: np.ndarray, task_ids: np.ndarray) -> Self:
        return self

    def predict(self, X: np.ndarray) -> Prediction:
        return Prediction(np.zeros(len(X)))

    def adapt(self, X: np.ndarray, y: np.ndarray) -> Self:
        return self


def run(model, plan: FewShot) -> list[dict]:
    X, draws = np.arange(5.0)[:, None], np.array([0.9, 0.1, 0.5, 0.7, 0.3])
    return list(measure_in_turn(model, model.adapt, X, LATENCY, plan=plan, draws=draws))


def test_a_model_measures_the_top_of_its_own_list_as_it_changes() -> None:
    told: list[list[float]] = []
    results = run(Learns(told), FewShot((0, 2, 3, 5)))
    # By number first; then, of what is left, by the truth.
    assert told == [[0, 1], [0, 1, 3], [0, 1, 3, 2, 4]]
    assert [result["shots"] for result in results] == [0, 2, 3, 5]
    assert math.isnan(results[0]["score_after"])
    assert [result["score_after"] for result in results[1:]] == [0.25, 1.0, 1.0]
    assert [result["score_at_1"] for result in results] == [0.25, 1.0, 1.0, 1.0]
    assert results[0]["log_excess"] == pytest.approx(math.log(4))
    assert results[1]["latency_error"] == 0.0
    assert math.isnan(results[0]["latency_error"])
    assert results[-1]["n_eps"] == results[-1]["n_eps_1"] == 3.0
    assert "n_eps" not in results[0]


def test_intervals_are_judged_by_what_was_not_measured() -> None:
    told = Prediction(-np.arange(4.0), np.ones(4), np.array([1.0, 1.0, 1.0, 5.0]), np.full(4, 9.0))
    model, latency = Fixed(told), np.array([0.5, INF, 2.0, 4.0])
    plan = FewShot((0, 1, 4))
    found = list(measure_in_turn(model, model.adapt, np.zeros((4, 0)), latency, plan=plan, draws=np.zeros(4)))
    assert [result["ran"] for result in found] == [3, 2, 0]
    assert [result["covered"] for result in found[:2]] == [1.0, 1.0]
    assert found[1]["interval_width"] == pytest.approx(9.0)
    assert math.isnan(found[2]["covered"])


def test_failures_are_passed_over_and_score_nothing() -> None:
    told: list[list[float]] = []
    latency = np.array([INF, INF, 2.0, 1.0])
    model = Fixed(Prediction(np.array([4.0, 3.0, 2.0, 1.0])))
    X = np.zeros((4, 0))
    first, second = measure_in_turn(model, model.adapt, X, latency, plan=FewShot((1, 2)), draws=np.zeros(4))
    assert (first["score_after"], second["score_after"], told) == (0.0, 0.0, [])
    # The first of the list that runs is what would be used.
    assert second["log_excess"] == pytest.approx(math.log(2))


def test_random_measurements_are_the_same_draws_for_every_model() -> None:
    told: list[list[float]] = []
    run(Learns(told), FewShot((1, 3), first="random"))
    assert told == [[1], [1, 4, 2]]


def test_expectations_at_random_are_means_over_orders() -> None:
    rng, plan = np.random.default_rng(0), FewShot((0, 1, 3))
    drawn = []
    for _ in range(4000):
        model = Fixed(Prediction(rng.permutation(5).astype(float)))
        drawn.append(
            list(measure_in_turn(model, model.adapt, np.zeros((5, 0)), LATENCY, plan=plan, draws=np.zeros(5)))
        )
    for i, expected in enumerate(measure_at_random(LATENCY, plan)):
        for name in ("score_at_1", "score_at_5", *(["score_after"] if i else [])):
            mean = np.mean([results[i][name] for results in drawn])
            assert expected[name] == pytest.approx(mean, abs=0.02)
    counts = [results[-1]["n_eps"] for results in drawn]
    assert expected["n_eps"] == pytest.approx(np.mean(counts), rel=0.03)


@pytest.mark.parametrize("shots", [(), (-1, 2), (2, 1), (1, 1)])
def test_impossible_shots_are_refused(shots) -> None:
    with pytest.raises(CostModelError, match="ascending"):
        FewShot(shots)


def test_no_order_of_records_enters_what_is_measured_among_equal_scores() -> None:
    data = gpu_landscape(workloads=("matmul-m128-n768-k768", "matmul-m512-n512-k512"), sms=(8, 132))
    best_first = sorted(data.to_measurements(), key=lambda measurement: measurement.latency_s)
    reports = [
        cross_validate(each, {"blind": lambda _columns: Blind()}, few_shot=FewShot((2, 4)))
        for each in (data, dataset_from_measurements(best_first))
    ]
    one, other = (report.by_shots().set_index(["learner", "shots"])["score_after"] for report in reports)
    assert one.to_dict() == pytest.approx(other.to_dict())


def test_random_draws_are_those_of_every_model_and_of_the_whole_device_too() -> None:
    workloads = ("matmul-m128-n768-k768", "matmul-m512-n512-k512")
    data = gpu_landscape(workloads=workloads, configs_per_workload=12, sms=(8, 132))
    plan = FewShot((4,), first="random", seed=3)
    report = cross_validate(data, {"ridge": partial(make_model, "ridge")}, few_shot=plan)
    found = report.shots.pivot(index="task", columns="learner", values="score_after")
    np.testing.assert_array_equal(found[WHOLE_DEVICE], found["ridge"])


def test_curves_rise_and_end_where_everything_is_measured(tmp_path) -> None:
    workloads = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")
    data = gpu_landscape(workloads=workloads, configs_per_workload=12, sms=(8, 132))
    split = make_split(data, SplitRecipe("leave-one-workload-out"))
    report = cross_validate(
        data, {"ridge": partial(make_model, "ridge")}, split=split, few_shot=FewShot((0, 2, 12))
    )
    table = report.by_shots().set_index(["learner", "shots"])
    assert set(table.index.get_level_values(0)) == {RANDOM, WHOLE_DEVICE, "ridge"}
    for name in (RANDOM, WHOLE_DEVICE, "ridge"):
        scores = table.loc[name, "score_at_1"]
        assert scores.is_monotonic_increasing
        assert scores.iloc[-1] == pytest.approx(1.0)
    assert table.loc[("ridge", 12), "gap_recovered"] == pytest.approx(1.0)
    # Without measurements both tables say the same.
    zero = {entry["learner"]: entry["score_at_1"]["mean"] for entry in report.statistics()}
    assert {name: table.loc[(name, 0), "score_at_1"] for name in zero} == pytest.approx(zero)
    # What a learner's own order needs is counted on that order.
    own = report.shots[(report.shots["learner"] == WHOLE_DEVICE) & (report.shots["shots"] == 12)]
    rows = data.rows
    for task in own.itertuples():
        of_task = rows[rows["task"] == task.task]
        whole = rows[(rows["workload"] == task.workload) & (rows["sms_granted"] == 132)]
        order = whole.sort_values("latency_s")["candidate"]
        latency_s = of_task.set_index("candidate")["latency_s"].reindex(order).to_numpy()
        assert task.n_eps == n_eps(latency_s, 0.05)
    report.plot(tmp_path / "shots.pdf", by="shots")
    assert (tmp_path / "shots.pdf").read_bytes()[:4] == b"%PDF"
    with pytest.raises(CostModelError, match="nothing was measured"):
        cross_validate(data, {}, split=split).plot(by="shots")
