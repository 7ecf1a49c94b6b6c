"""Leaving one device out, on caches of another suite and on our own budgets."""

import json
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from fake_caches import fake_cache, write_cache
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import build_dataset, load_dataset, make_split
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.errors import CostModelError
from costmodel.evaluation import cross_validate
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE, whole_device_latency
from costmodel.learners import learner_names
from costmodel.testing import gpu_landscape
from costmodel.transfer import LearningRows, make_model, shortlist
from costmodel.transfer.models._source_mixture import SourceMixture

pytestmark = pytest.mark.white_box

# The fake devices are one of different speeds.
APART = SplitRecipe("leave-one-device-out", keep_twins_apart=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, header) -> Path:
    """Two kernels on three devices that rank configs alike; each kernel has another best config."""
    place, files = tmp_path_factory.mktemp("caches"), []
    for device, slowness in (("NVIDIA A", 1.0), ("NVIDIA B", 1.5), ("AMD C", 40.0)):
        first, second = fake_cache(device, slowness), fake_cache(device, slowness)
        second["kernel_name"] = "gemm"
        for entry in second["cache"].values():
            if not isinstance(entry["time"], str):
                entry["times"] = [time + slowness * (entry["block"] == 32) * 5 for time in entry["times"]]
                entry["time"] = entry["times"][1]
        files += [write_cache(place / f"{device} {i}.json", cache) for i, cache in enumerate((first, second))]
    return build_dataset(files, place / "out", header=header).path


def test_devices_are_held_out_one_by_one_and_rules_find_the_best_config(folder: Path) -> None:
    models = {name: partial(make_model, name) for name in learner_names() if name not in (RANDOM, "network")}
    dataset = load_dataset(folder)
    report = cross_validate(dataset, models, split=make_split(dataset, APART))
    # No model has seen the device that it is judged on.
    assert set(report.tasks["device"]) == {"AMD C", "NVIDIA A", "NVIDIA B"}
    assert "seen" not in set(report.tasks["device_is"])
    assert WHOLE_DEVICE not in report.learners
    assert report.partial_budgets == []
    summary = {entry["learner"]: entry for entry in report.statistics()}
    assert summary.keys() == {RANDOM, *models}
    # The two kernels have their best config elsewhere: mixing them up would show.
    for rule in ("nearest-task", "consensus", "ridge-on-sources", "source-mixture"):
        assert summary[rule]["score_at_1"]["p10"] == pytest.approx(1.0)
    assert summary[RANDOM]["score_at_1"]["mean"] < 0.8
    assert all(entry["score_at_25"]["median"] == 1.0 for entry in report.statistics())
    with pytest.raises(CostModelError, match="needs tasks on a part of a device"):
        report.plot(by="budget")


def test_the_whole_device_is_that_of_the_task() -> None:
    parts = [
        gpu_landscape(workloads=["matmul-m128-n64-k64"], configs_per_workload=8, sms=sms).rows.assign(
            device=name
        )
        for name, sms in (("small", (8, 16)), ("large", (8, 132)))
    ]
    rows = pd.concat(parts, ignore_index=True)
    assert set(rows.loc[select_whole_device(rows), "sms_granted"]) == {16, 132}
    latency_s = whole_device_latency(rows)
    for device, sms in (("small", 16), ("large", 132)):
        of_device = rows["device"] == device
        whole = rows[of_device & (rows["sms_granted"] == sms)].set_index("candidate")["latency_s"]
        expected = whole.reindex(rows.loc[of_device, "candidate"])
        assert latency_s[of_device] == pytest.approx(expected.to_numpy())


def test_the_command_shows_scores_and_no_budgets(folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    arguments = [
        "evaluate",
        folder,
        "--split",
        "leave-one-device-out",
        "--keep-twins-apart",
        "--learner",
        "consensus",
        "--json",
        report,
    ]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "Score@25" in result.stdout
    assert "Budget gap recovered" not in result.stdout
    assert len(json.loads(report.read_text())["tasks"]) == 2 * 6


def test_the_command_names_twins_and_holds_them_out_together(folder: Path) -> None:
    arguments = ["evaluate", folder, "--split", "leave-one-device-out", "--learner", "consensus"]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 2
    assert "AMD C + NVIDIA A + NVIDIA B" in result.stderr
    assert "--keep-twins-apart" in result.stderr


@pytest.mark.tvm
def test_a_foreign_kernel_cannot_be_tuned() -> None:
    pytest.importorskip("tvm")
    result = CliRunner().invoke(app, ["tune", "kernel_tuner.gemm-x8", "--runner", "cpu", "--sms", "1"])
    assert result.exit_code == 2
    assert "kernel of another suite" in result.stderr


def test_a_model_that_makes_its_own_list_is_judged_by_it(folder: Path) -> None:
    dataset = load_dataset(folder)

    class ScoresOnly(SourceMixture):
        spread = None  # so that it is no belief, and its scores alone are judged

    def make(cls, columns):
        model = make_model("source-mixture", columns)
        return cls(model.task_columns, model.kin_columns, config_columns=model.config_columns)

    models = {"listed": partial(make, SourceMixture), "scores": partial(make, ScoresOnly)}
    ours = {}
    for held_out in make_split(dataset, APART).folds:
        data = LearningRows.of(dataset)
        model = data.fit(make(SourceMixture, data.table.columns), held_out.train)
        for task, at in data.rows.iloc[held_out.test].groupby("task").indices.items():
            X, y = (values[held_out.test[at]] for values in (data.table.values, data.latency_s))
            ours[task] = [y.min() / y[shortlist(model, X, 25)[:k]].min() for k in (1, 5)]
    tasks = cross_validate(dataset, models, split=make_split(dataset, APART)).tasks.set_index(
        ["learner", "task"]
    )
    for task, expected in ours.items():
        assert tasks.loc[("listed", task), ["score_at_1", "score_at_5"]].tolist() == pytest.approx(expected)
    firsts = tasks["score_at_1"].unstack("learner")
    assert firsts["listed"].tolist() == firsts["scores"].tolist()
