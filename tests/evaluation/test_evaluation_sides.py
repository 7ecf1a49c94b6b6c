"""One dataset teaches, another judges; what is new of a task; and fewer tasks than all."""

import json
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fake_devices import Key, contents, dataset_of
from fake_records import WORKLOADS, fake_measurement
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import CardHeader, Dataset, build_dataset, load_dataset, make_split
from costmodel.dataset.splits._make import SplitRecipe, drop_final_report, write_final_shapes
from costmodel.errors import CostModelError
from costmodel.evaluation import cross_validate, evaluate_across
from costmodel.evaluation._judge import WHOLE_DEVICE, FewShot
from costmodel.evaluation._sides import join, novelty, put_apart, sample_tasks
from costmodel.learners import Prediction
from costmodel.records import Measurement, Outcome, RecordStore
from costmodel.testing import gpu_landscape
from costmodel.transfer import TransferModel, make_model
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

A, B = "NVIDIA RTX A4000", "NVIDIA TITAN RTX"
RIDGE = {"ridge": partial(make_model, "ridge")}


class Noting(TransferModel):
    """Notes the tasks that it is trained on."""

    def __init__(self, seen: list[set[str]]) -> None:
        self.seen = seen

    def fit(self, X, y, task_ids):
        self.seen.append(set(task_ids))
        return self

    def predict(self, X):
        return Prediction(np.zeros(len(X)))

    def adapt(self, X, y):
        raise NotImplementedError


def latencies(device: str, workloads, budgets, tiles=range(1, 11), factor: float = 1.0) -> dict[Key, float]:
    rng = np.random.default_rng(len(device))
    return {
        (device, w, t, s): factor * float(rng.lognormal()) for w in workloads for t in tiles for s in budgets
    }


def test_joined_datasets_keep_every_measurement() -> None:
    first = latencies(A, WORKLOADS[:2], (8, 132))
    second = latencies(B, WORKLOADS[1:], (8, 32), tiles=range(5, 15))
    joined = join([dataset_of(first), dataset_of(second)])
    assert contents(joined, range(len(joined.rows))) == {*first, *second}
    # Six tiles of the shared workload are the same candidates.
    assert len(joined.candidates) == 2 * 10 + 2 * 10 - 6
    for row in joined.rows.itertuples():
        tile = joined.candidates[row.candidate].config.decisions["tile"]
        expected = {**first, **second}[row.device, row.workload, tile, row.sms_granted]
        assert row.latency_s == pytest.approx(expected)


def test_nothing_that_is_judged_is_learned_from() -> None:
    train = latencies(A, WORKLOADS, (8, 32))
    test = {**latencies(A, WORKLOADS[:1], (8,), tiles=range(8, 14)), **latencies(B, WORKLOADS[:1], (8,))}
    with pytest.raises(CostModelError, match=rf"but 1 are, such as {WORKLOADS[0]} on {A}/green_context/8"):
        put_apart([dataset_of(train)], dataset_of(test), "refuse")
    for choice, learned in (
        ("drop", {key for key in train if key[1:2] != WORKLOADS[:1] or key[3] != 8}),
        ("keep", set(train) - set(test)),
    ):
        joined, fold = put_apart([dataset_of(train)], dataset_of(test), choice)
        assert contents(joined, fold.train) == learned
        assert contents(joined, fold.test) == set(test)
        # What both measured has the latency of the dataset that judges.
        for row in joined.rows.iloc[fold.test].itertuples():
            tile = joined.candidates[row.candidate].config.decisions["tile"]
            assert row.latency_s == pytest.approx(test[row.device, row.workload, tile, row.sms_granted])
    with pytest.raises(CostModelError, match="There must be something to learn from"):
        put_apart([dataset_of(test)], dataset_of(test), "drop")
    with pytest.raises(CostModelError, match="must be one of refuse, drop, keep"):
        put_apart([dataset_of(train)], dataset_of(test), "ignore")


def test_novelty_says_what_was_met_and_that_a_twin_is_no_new_device() -> None:
    train = latencies(A, WORKLOADS[:2], (8, 32))
    copy = {("Copy", *key[1:]): 2 * value for key, value in train.items()}
    test = {**copy, **latencies(B, WORKLOADS[1:], (8, 64))}
    joined, fold = put_apart([dataset_of(train)], dataset_of(test), "refuse")
    rows = joined.rows.join(novelty(joined, [fold])).iloc[fold.test]
    found = set(
        rows[["device", "workload", "sms_granted", "workload_is", "device_is", "budget_is"]].itertuples(
            index=False, name=None
        )
    )
    assert {entry[4] for entry in found if entry[0] == "Copy"} == {"twin"}
    assert (B, WORKLOADS[2], 64, "new", "new", "new") in found
    assert (B, WORKLOADS[1], 8, "seen", "new", "seen") in found
    split = make_split(joined, SplitRecipe("leave-one-workload-out"))
    told = novelty(joined, split.folds)
    assert set(told["workload_is"]) == {"new"}


def test_a_report_of_two_datasets_has_a_whole_device_only_where_it_was_measured() -> None:
    def landscape(*workloads, sms) -> Dataset:
        return gpu_landscape(workloads=workloads, configs_per_workload=10, sms=sms)

    train = landscape("matmul-m128-n768-k768", "matmul-m64-n2304-k768", sms=(8, 32, 132))
    whole = evaluate_across([train], landscape("matmul-m512-n512-k512", sms=(8, 132)), RIDGE)
    assert WHOLE_DEVICE in whole.learners
    assert set(whole.tasks["workload_is"]) == {"new"}
    assert set(whole.tasks["device_is"]) == {"seen"}
    part = evaluate_across([train], landscape("matmul-m512-n512-k512", sms=(8, 24)), RIDGE)
    assert WHOLE_DEVICE not in part.learners
    assert np.isnan(part.statistics()[-1]["gap_recovered"])
    table = part.by_novelty()
    assert set(table["budget_is"]) == {"seen", "new"}


def test_what_a_dataset_keeps_for_its_final_report_is_on_neither_side(
    tmp_path: Path, header: CardHeader
) -> None:
    def kept_apart(name: str, sms: int) -> Dataset:
        with RecordStore(tmp_path / f"{name}.jsonl") as store:
            store.append(
                [
                    fake_measurement(f"matmul-m{m}-n64-k64", tile, sms)
                    for m, tile in product((16, 32, 64, 128), (1, 2, 4))
                ]
            )
        built = build_dataset([tmp_path / f"{name}.jsonl"], tmp_path / name, header=header).path
        write_final_shapes(load_dataset(built))
        return load_dataset(built)

    learned, test = kept_apart("train", 8), kept_apart("test", 32)
    left = set(drop_final_report(test).workloads)
    assert len(left) == 3
    seen: list[set[str]] = []
    report = evaluate_across([learned], test, {"spy": lambda _columns: Noting(seen)})
    assert set(report.tasks["workload"]) == left
    assert {task.partition("@")[0] for task in seen[0]} == left
    # It is said how much that is, and all of it can be had.
    assert report.remarks == tuple(
        f"Not used of {data.name}, as reserved for its final report: 3 of 12 measurements, of 1 workloads "
        "(--with-final-report uses them)."
        for data in (learned, test)
    )
    whole = evaluate_across([learned], test, {"spy": lambda _columns: Noting(seen)}, with_final_report=True)
    assert whole.remarks == ()
    assert set(whole.tasks["workload"]) == set(test.workloads)
    assert {task.partition("@")[0] for task in seen[1]} == set(learned.workloads)


def with_lone_configs() -> Dataset:
    """Three workloads of ten configs on 8 SMs; of the first two, one config each was measured on 4 SMs."""
    lone = latencies(A, WORKLOADS[:2], (4,), tiles=range(1, 2))
    return dataset_of({**latencies(A, WORKLOADS, (8,)), **lone})


def test_tasks_of_one_config_are_left_out_of_every_score_and_the_report_says_how_many() -> None:
    data = with_lone_configs()
    report = cross_validate(data, RIDGE)
    assert report.remarks == ("Left out of all scores: 2 tasks of one config, where there is no choice.",)
    assert report.to_dict()["remarks"] == list(report.remarks)
    assert (report.tasks["configs"] == 10).all()
    assert set(report.tasks["sms_granted"]) == {8}
    assert report.summary()["tasks"].tolist() == [3, 3]  # random and the learner
    few = cross_validate(data, RIDGE, tasks=2, few_shot=FewShot((0, 1)))
    assert few.tasks["task"].nunique() == 2  # none of them spent on a task that tells nothing
    assert (few.tasks["configs"] == 10).all()
    assert (few.shots["configs"] == 10).all()
    across = evaluate_across([dataset_of(latencies(B, WORKLOADS, (8,)))], data, RIDGE)
    assert across.remarks == report.remarks


def test_a_list_of_best_configs_cannot_be_evaluated_on() -> None:
    best = dataset_of(latencies(A, WORKLOADS, (8, 32), tiles=range(1, 2)))
    with pytest.raises(CostModelError, match="two configs or more to choose among, but each of its 6 tasks"):
        cross_validate(best, RIDGE)


def test_tasks_of_one_config_give_a_model_no_metrics() -> None:
    held_out = train(with_lone_configs(), "ridge", hold_out=[WORKLOADS[0]]).held_out_tasks
    assert held_out is not None
    assert held_out["configs"].tolist() == [10]
    best = dataset_of(latencies(A, WORKLOADS, (8, 32), tiles=range(1, 2)))
    model = train(best, "ridge", hold_out=[WORKLOADS[0]])
    assert (model.held_out_tasks, model.metadata.metrics) == (None, {})


def test_only_the_whole_device_is_learned_of_a_workload_and_all_parts_are_judged() -> None:
    names = ("matmul-m128-n768-k768", "matmul-m64-n2304-k768", "matmul-m512-n512-k512")
    data = gpu_landscape(workloads=names, configs_per_workload=10, sms=(8, 96, 132))
    report = cross_validate(data, RIDGE, split="whole-device-only")
    # The largest budget that is judged is still a part.
    assert report.partial_budgets == [8, 96]
    assert set(report.tasks["workload_is"]) == {"seen"}
    entry = report.statistics()[-1]
    assert entry["gap_recovered_low"] <= entry["gap_recovered"] <= entry["gap_recovered_high"]


def test_sampled_tasks_are_spread_nested_and_whole() -> None:
    data = dataset_of({**latencies(A, WORKLOADS, (8, 32, 132)), **latencies(B, WORKLOADS, (8, 16))})
    folds = make_split(data, SplitRecipe("leave-one-workload-out")).folds
    kept = []
    for count in (5, 8, 100):
        rows = data.rows.iloc[np.concatenate([f.test for f in sample_tasks(data.rows, folds, count)])]
        kept.append(set(rows["task"]))
        assert len(kept[-1]) == min(count, 15)
        assert (rows.groupby("task").size() == 10).all()
        by_budget = rows.drop_duplicates("task")["sms_granted"].value_counts()
        assert by_budget.max() - by_budget.min() <= (1 if count <= 12 else 6)
    assert kept[0] < kept[1] < kept[2]
    train = {fold.held_out: fold.train.tolist() for fold in folds}
    assert all(f.train.tolist() == train[f.held_out] for f in sample_tasks(data.rows, folds, 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the datasets train and blind, which share no workload."""
    folder = tmp_path_factory.mktemp("datasets")
    header = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")
    sides = {"train": ("matmul-m128-n64-k64", "matmul-m64-n128-k64"), "blind": ("matmul-m64-n64-k64",)}
    for name, workloads in sides.items():
        data = gpu_landscape(workloads=workloads, configs_per_workload=8, sms=(8, 132))
        with RecordStore(folder / f"{name}.jsonl") as store:
            store.append(
                [
                    Measurement(
                        candidate=data.candidates[row.candidate],
                        platform=data.platforms[row.platform],
                        outcome=Outcome(row.outcome),
                        latencies_s=tuple(row.latencies_s),
                        runs_per_repeat=1,
                        measured_at=row.measured_at,
                        error=row.error,
                    )
                    for row in data.measurements.itertuples()
                ]
            )
        build_dataset([folder / f"{name}.jsonl"], folder / name, header=header)
    return folder


def test_the_command_learns_here_and_judges_there(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    arguments = ["evaluate", "--train", "train", "--test", "blind/measurements.parquet", "--learner", "ridge"]
    arguments += [
        "--learner",
        "xgboost",
        "--seeds",
        "2",
        "--shots",
        "0,2",
        "--baseline",
        "ridge",
        "--out",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "of a new workload on a seen device at a seen SM budget" in result.stdout
    assert "Against ridge" in result.stdout
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {task["workload"] for task in written["tasks"]} == {"matmul-m64-n64-k64"}
    assert written["train"][0]["dataset"] == "train"
    runs = {entry["learner"]: len(entry["runs"]["score_at_1"]) for entry in written["summary"]}
    assert (runs["ridge"], runs["xgboost"]) == (1, 2)
    assert [entry["learner"] for entry in written["against"]] == ["random", "xgboost"]
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"summary.csv", "by_shots.csv", "against.csv", "tasks.csv", "shots.png", "report.png"} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "train"], "train and test must be given together"),
        (["--train", "train", "--test", "blind", "--folds", "2"], "must be given together, without"),
        (["--train", "train", "--test", "train"], "--shared-tasks drop"),
        (["train", "--shots", "1,x"], "Shots must be whole numbers"),
        (["train", "--baseline", "oracle"], "baseline must be among the learners"),
        (["train", "--shots", "1", "--first", "best"], "must be own or random"),
    ],
)
def test_the_command_refuses(folder, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, ["evaluate", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
