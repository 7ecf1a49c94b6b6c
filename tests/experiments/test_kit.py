"""What experiments share agrees with the package's own evaluation, and keeps what is held out apart."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from costmodel.dataset import Dataset, SplitRecipe, make_split
from costmodel.dataset.splits._folds import Fold
from costmodel.evaluation import cross_validate
from costmodel.learners import Prediction
from costmodel.learners._statistics import cluster_bootstrap_interval
from costmodel.search._acquisition import improvement_of_posterior
from costmodel.testing import gpu_landscape
from costmodel.transfer import LearningRows, TransferModel, make_model

pytestmark = pytest.mark.white_box

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")
LEARNERS = ("kernel-ridge", "source-mixture")  # the second lists what it would measure itself


@pytest.fixture(scope="module", autouse=True)
def found() -> Iterator[None]:
    """The kit is found as scripts find it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(EXPERIMENTS)])
        yield


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Nine tasks; some configs fail."""
    data = gpu_landscape(workloads=WORKLOADS, configs_per_workload=24, sms=(8, 32, 132))
    frame = data.measurements.copy()
    frame.loc[frame.index % 11 == 0, "latency_s"] = np.inf
    return Dataset(data.candidates, data.platforms, frame)


@pytest.fixture(scope="module")
def folds(dataset: Dataset) -> tuple[Fold, ...]:
    return make_split(dataset, SplitRecipe("leave-one-workload-out")).folds


def test_learners_are_judged_as_by_the_package(dataset: Dataset, folds: tuple[Fold, ...]) -> None:
    from kit.judging import compare, judge_learners, summarise

    models = {name: partial(make_model, name) for name in LEARNERS}
    report = cross_validate(dataset, models)
    tasks = judge_learners(LearningRows.of(dataset), folds, models, ks=(1, 5, 10, 25))
    for name in report.learners:
        ours, theirs = (table[table["learner"] == name].set_index("task") for table in (tasks, report.tasks))
        columns = ["score_at_1", "score_at_5", "score_at_25", "log_excess", "configs"]
        np.testing.assert_allclose(ours.loc[theirs.index, columns], theirs[columns], rtol=1e-12, err_msg=name)
    summary = report.summary()
    for row in summarise(tasks):
        expected = summary.loc[row["learner"]]
        assert row["score_at_1"] == pytest.approx(expected["score_at_1"])
        assert row["score_at_1_ci95"] == pytest.approx(
            [expected["score_at_1_low"], expected["score_at_1_high"]]
        )
        assert row["gap_recovered"] == pytest.approx(expected["gap_recovered"])
        assert row["gap_recovered_ci95"][0] == pytest.approx(expected["gap_recovered_low"])
    compared = {row["learner"]: row["score_at_5"] for row in compare(tasks, "kernel-ridge")}
    for row in report.against("kernel-ridge"):
        assert compared[row["learner"]] == row["score_at_5"]


class Spy(TransferModel):
    """Notes what it learns; scores a config by its place in the call, and by the seed."""

    def __init__(self, seed: int, seen: list[set[str]]) -> None:
        self.seed, self.seen = seed, seen

    def fit(self, X: Any, y: Any, task_ids: Any) -> Self:
        self.seen.append(set(task_ids))
        return self

    def predict(self, X: Any) -> Prediction:
        return Prediction(np.arange(len(X)) * (-1.0) ** self.seed)

    def adapt(self, X: Any, y: Any) -> Self:
        return self


def test_a_fold_is_not_learned_from_what_it_asks_for(dataset: Dataset, folds: tuple[Fold, ...]) -> None:
    from kit.held_out import predict_held_out

    seen: list[set[str]] = []
    data = LearningRows.of(dataset)
    said = predict_held_out(data, folds[:2], lambda columns, seed: Spy(seed, seen))
    assert said.latency_s is None
    for fold, tasks in zip(folds[:2], seen, strict=True):
        assert tasks.isdisjoint(set(data.task_ids[fold.test]))
        assert said.score[fold.test].tolist() == list(range(len(fold.test)))
    assert np.isnan(said.score[folds[2].test]).all()


def test_seeds_are_runs_of_a_learner(dataset: Dataset, folds: tuple[Fold, ...]) -> None:
    from kit.judging import compare, judge_learners, summarise

    models = {"spy": lambda columns, seed: Spy(seed, [])}
    tasks = judge_learners(LearningRows.of(dataset), folds, models, seeds=(0, 1), ks=(1,))
    spy = next(row for row in summarise(tasks) if row["learner"] == "spy")
    assert len(tasks[tasks["learner"] == "spy"]) == 2 * spy["tasks"] == 18
    assert spy["score_at_1"] == pytest.approx(np.mean(spy["score_at_1_seeds"]))
    assert len(set(spy["score_at_1_seeds"])) == 2
    blind = next(row for row in summarise(tasks) if row["learner"] == "random")
    (beside,) = [row for row in compare(tasks, "random") if row["learner"] == "spy"]
    difference = spy["score_at_1"] - blind["score_at_1"]
    assert beside["score_at_1"]["mean_difference"] == pytest.approx(difference)


def test_an_interval_draws_whole_clusters() -> None:
    from kit.judging import bootstrap_interval

    values = np.array([1.0, 1.0, 1.0, 5.0])
    clusters = np.array(["a", "a", "a", "b"])
    low, high = bootstrap_interval(lambda drawn: float(values[drawn].mean()), clusters)
    assert (low, high) == (1.0, 5.0)  # a draw has one cluster alone half of the time
    assert cluster_bootstrap_interval(values, clusters) == (low, high)
    slowest = bootstrap_interval(lambda drawn: np.inf if 3 in drawn else 1.0, clusters, method="inverted_cdf")
    assert slowest == [1.0, np.inf]


def test_a_search_of_records_ends_near_the_best(dataset: Dataset, folds: tuple[Fold, ...]) -> None:
    from kit.held_out import fit_folds
    from kit.replay import search_recorded

    data = LearningRows.of(dataset)
    fold, model = next(fit_folds(data, folds, partial(make_model, "source-mixture")))
    at = fold.test[data.task_ids[fold.test] == data.task_ids[fold.test[0]]]
    X, latency_s = data.features[at], data.latency_s[at]
    order = search_recorded(model, X, latency_s, near=1.0, most=len(at))
    assert len(set(order)) == len(order)
    assert latency_s[order[-1]] == latency_s.min() < latency_s[order[:-1]].min(initial=np.inf)
    order = search_recorded(model, X, latency_s, near=0.0, most=12)
    for count in range(5, 12, 2):  # the first five are those of a list
        seen = order[:count]
        left = np.setdiff1d(np.arange(len(at)), seen)
        known = model.propose(X[seen], latency_s[seen])
        hoped = improvement_of_posterior(known, X[left], latency_s[seen].min())
        assert hoped[left == order[count]] == hoped.max()
    assert search_recorded(model, X, latency_s, near=1.0, most=3, first=[5, 4])[:2].tolist() == [5, 4]
    assert len(search_recorded(model, X, latency_s, near=np.inf, most=9, least=4)) == 4


def test_kernels_are_drawn_of_workloads_at_equal_distances(dataset: Dataset) -> None:
    from kit.kernels import draw_kernels, spread

    assert spread(list("abcdefg"), 3) == ["a", "d", "g"]
    assert spread(["a", "b"], 8) == ["a", "b"]
    drawn = draw_kernels(dataset, 4, count=2)
    assert list(drawn) == [sorted(WORKLOADS)[0], sorted(WORKLOADS)[-1]]
    slowest = dataset.rows.groupby("candidate")["latency_s"].max()
    ran = {dataset.candidates[i].candidate_id for i in slowest.index[np.isfinite(slowest)]}
    for name, kernels in drawn.items():
        assert {kernel.workload.name for kernel in kernels} == {name}
        ids = {kernel.candidate_id for kernel in kernels}
        assert len(ids) == 4
        assert ids <= ran
    assert list(draw_kernels(dataset, 1, [WORKLOADS[1]])) == [WORKLOADS[1]]


def test_a_table_aligns_numbers() -> None:
    from kit.results import markdown_table, rounded

    assert markdown_table(("a", "b", "n"), [("x", "y", 1)], texts=2).splitlines() == [
        "| a | b | n |",
        "| --- | --- | ---: |",
        "| x | y | 1 |",
    ]
    assert rounded({"a": [np.float64(0.123456), 7, "x", None, True]}, 3) == {"a": [0.123, 7, "x", None, True]}
