import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.records import Candidate, Platform, find_device
from costmodel.testing import LANDSCAPE_DEVICE
from costmodel.tracking import MlflowTracker, tracked_run
from costmodel.tracking._base import RunRecord, RunStatus
from costmodel.transfer import kernel_frame, load_model

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"
ROOT = Path(__file__).parents[2]
# As if MLflow were not installed, from the first import on.
WITHOUT_MLFLOW = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mlflow":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocker())
import costmodel.cli._app, costmodel.evaluation, costmodel.search, costmodel.tracking
costmodel.cli._app.main()
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("COSTMODEL_TRACKING_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def tracked(store: Path, *arguments: object) -> list[RunRecord]:
    """Runs that a tracked command logs, the one above first."""
    done = costmodel(*arguments, "--tracking-uri", store)
    assert done.exit_code == 0, done.output
    assert f"mlflow ui --backend-store-uri sqlite:///{store}" in done.stdout
    runs = MlflowTracker(str(store)).runs()
    return sorted(runs, key=lambda run: (run.parent_id is not None, run.started_at))


def read(store: Path, *arguments: object) -> tuple[Any, str]:
    """What `costmodel experiments` writes as JSON and prints."""
    file = store.with_name("read.json")
    done = costmodel("experiments", *arguments, "--tracking-uri", store, "--json", file)
    assert done.exit_code == 0, done.output
    return json.loads(file.read_text()), done.stdout


def assert_refused(result: Result, *texts: str) -> None:
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    for text in texts:
        assert text in result.stderr


def test_evaluation_is_a_run_with_one_below_for_each_learner(store: Path, dataset: Path) -> None:
    learners = ("--learner", "consensus", "--learner", "random-forest")
    report = store.with_name("report.json")
    top, *below = tracked(
        store, "evaluate", dataset, *learners, "--seeds", 2, "--shots", "0,4", "--json", report
    )
    summary = {entry["learner"]: entry for entry in json.loads(report.read_text())["summary"]}
    assert top.status is RunStatus.FINISHED
    assert (top.experiment, top.name) == ("evaluate", "landscape, leave-one-workload-out")
    assert {run.name for run in below} == set(summary) > {"consensus", "random-forest", "random"}
    assert all(run.parent_id == top.run_id for run in below)
    for run in below:
        assert run.metrics["score_at_1"] == pytest.approx(summary[run.name]["score_at_1"]["mean"])
        assert top.metrics[f"score_at_1/{run.name}"] == run.metrics["score_at_1"]
        assert min(run.metrics) == "answer/score_at_1"
    assert top.parameters["seeds"] == "0, 1"
    assert top.parameters["learners"] == "consensus, random-forest"
    assert top.parameters["shared_tasks"] == "refuse"
    assert top.tags["git.commit"]
    assert top.tags["software.numpy"] == np.__version__
    assert [used.name for used in top.datasets] == ["landscape"]
    files = MlflowTracker(str(store)).files(top.run_id)
    assert {"plots/by_budget.png", "plots/by_measurements.png", "tables/tasks.csv", "config.json"} <= set(
        files
    )
    assert files["plots/by_budget.png"] > 10_000


def test_a_model_is_logged_with_its_signature_and_predicts(store: Path, dataset: Path) -> None:
    import mlflow

    held_out = ("--hold-out", WORKLOAD)
    (run,) = tracked(
        store, "train", dataset, "--out", "mine.costmodel", "--learner", "kernel-ridge+intervals", *held_out
    )
    assert run.metrics["learned/workloads"] == 2
    assert 0 < run.metrics["score_at_1"] <= 1
    assert (min(run.metrics), run.metrics["answer/score_at_1"]) == (
        "answer/score_at_1",
        run.metrics["score_at_1"],
    )
    assert {"plots/held_out.png", "tables/tasks.csv", "model/MLmodel", "model/data/mine.costmodel"} <= set(
        MlflowTracker(str(store)).files(run.run_id)
    )
    mlflow.set_tracking_uri(f"sqlite:///{store}")
    loaded = mlflow.pyfunc.load_model(f"runs:/{run.run_id}/model")
    assert loaded.metadata.signature.inputs.input_names() == ["candidate", "device", "sms"]
    candidates = load_dataset(dataset).candidates[:5]
    known = find_device("H100 SXM")
    assert kernel_frame(candidates, known, 32)["device"].unique().tolist() == [known.name]
    frame = kernel_frame(candidates, LANDSCAPE_DEVICE, 32)
    assert_predicts_as_the_file(loaded.predict(frame), frame)


def assert_predicts_as_the_file(found: Any, frame: Any) -> None:
    """A row's prediction is that of the model file, whatever stands beside it."""

    model = load_model(Path("mine.costmodel")).model
    platform = Platform(LANDSCAPE_DEVICE, "green_context", 32, 32)
    candidates = [msgspec.json.decode(line, type=Candidate) for line in frame["candidate"]]
    expected = model.predict(extract(candidates, [platform] * len(candidates)).values)
    np.testing.assert_allclose(found["rank_score"], expected.score)
    np.testing.assert_allclose(found["latency_s"], expected.latency_s)
    assert (found["low_s"] < found["high_s"]).all()
    assert found["unfamiliarity"].notna().all()


def test_trials_of_a_search_are_logged_by_step(store: Path, dataset: Path) -> None:
    options = ("--learn-from", dataset, "--replay", dataset, "--learner", "ridge", "--trials", 5)
    (run,) = tracked(store, "tune", WORKLOAD, "--sms", 32, *options, "--json", "tune.json")
    told = json.loads(Path("tune.json").read_text())
    tracker = MlflowTracker(str(store))
    history = tracker._client.get_metric_history(run.run_id, "trial/latency_us on 32")
    assert {point.step: point.value for point in history} == {
        trial["number"]: pytest.approx(1e6 * trial["latency_s"][0]) for trial in told["trials"]
    }
    assert len(history) == 5
    best = [p.value for p in tracker._client.get_metric_history(run.run_id, "trial/best_so_far_us")]
    assert best == sorted(best, reverse=True)
    assert run.metrics["best_latency_us"] == best[-1] == pytest.approx(1e6 * told["best"]["latency_s"][0])
    assert (min(run.metrics), run.metrics[min(run.metrics)]) == ("answer/best_latency_us", best[-1])
    assert run.name == f"{WORKLOAD} on 32 SMs"
    assert "report.html" in tracker.files(run.run_id)


def test_a_resumed_search_has_all_of_its_trials(store: Path, dataset: Path) -> None:
    source = ("--learn-from", dataset, "--replay", dataset, "--learner", "ridge")
    options = ("--sms", 32, *source, "--study", "study.log")
    assert costmodel("tune", WORKLOAD, *options, "--trials", 3).exit_code == 0
    (run,) = tracked(store, "tune", WORKLOAD, *options, "--trials", 5)
    logged = MlflowTracker(str(store))._client.get_metric_history(run.run_id, "trial/latency_us on 32")
    assert sorted(point.step for point in logged) == [0, 1, 2, 3, 4]


def test_trials_of_several_sources_are_logged_once_each_by_their_number_in_the_result(store: Path) -> None:
    options = ("--replay", "cuda-sm-budgets", "--device", "H100", "--learn-from", "nothing", "--sms", 8)
    workload = "matmul-m512-n512-k512"
    (run,) = tracked(store, "tune", workload, *options, "--trials", 3, "--json", "tune.json")
    told = json.loads(Path("tune.json").read_text())
    history = MlflowTracker(str(store))._client.get_metric_history(run.run_id, "trial/latency_us on 8")
    assert len(history) == len(told["trials"]) == 6
    assert {point.step: point.value for point in history} == {
        trial["number"]: pytest.approx(1e6 * trial["latency_s"][0]) for trial in told["trials"]
    }


@pytest.mark.parametrize("runner", ["cpu", "cuda"])
def test_a_search_on_a_device_has_the_history_that_was_named_and_no_other(
    store: Path, dataset: Path, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CostModelError("there is no device")

    monkeypatch.setattr("costmodel.tuning._tune.tune", refuse)
    for named in ((), ("--learn-from", dataset)):
        failed = costmodel("tune", WORKLOAD, "--runner", runner, *named, "--tracking-uri", store)
        assert_refused(failed, "there is no device")
    named, unnamed = MlflowTracker(str(store)).runs()
    assert [used.name for used in named.datasets] == ["landscape"]
    assert not unnamed.datasets


def test_a_search_for_several_budgets_has_its_dispatch_table(store: Path, dataset: Path) -> None:
    options = ("--learn-from", dataset, "--replay", dataset, "--learner", "ridge", "--trials", 4)
    (run,) = tracked(store, "tune", WORKLOAD, "--portfolio", 2, *options)
    assert run.metrics["worst_regret"] >= run.metrics["mean_regret"] >= 0
    assert (min(run.metrics), run.metrics[min(run.metrics)]) == (
        "answer/worst_regret",
        run.metrics["worst_regret"],
    )
    assert {f"trial/latency_us on {sms}" for sms in (8, 32, 132)} <= set(run.metrics)
    assert "dispatch.json" in MlflowTracker(str(store)).files(run.run_id)


def test_a_command_that_fails_is_logged_as_failed(store: Path, dataset: Path) -> None:
    refused = costmodel("train", dataset, "--out", "m", "--learner", "none", "--tracking-uri", store)
    assert_refused(refused)
    (run,) = MlflowTracker(str(store)).runs()
    assert run.status is RunStatus.FAILED
    assert run.parameters["learner"] == "none"
    assert run.tags["ended_by"].startswith("CostModelError")


def test_runs_are_listed_shown_and_compared(store: Path) -> None:
    folder = ROOT / "experiments" / "kill_the_collector"
    done = costmodel("experiments", "log", folder, "--tracking-uri", store)
    assert done.exit_code == 0, done.output
    with tracked_run(MlflowTracker(str(store)), "another", "mine"):
        pass
    runs, printed = read(store, "list")
    assert [run["name"] for run in runs] == ["another", "kill_the_collector"]
    assert "mine: 1 run" in printed
    run_id = runs[1]["run_id"]
    shown, printed = read(store, "show", run_id[:6])
    expected = json.loads((folder / "result.json").read_text())
    assert shown["run"]["metrics"]["campaign/kills"] == expected["campaign"]["kills"]
    assert "campaign/kills" in printed
    assert "result.json" in shown["files"]
    compared, printed = read(store, "compare", run_id[:6], runs[0]["run_id"])
    assert [run["run_id"] for run in compared["runs"]] == [run_id, runs[0]["run_id"]]
    assert read(store, "list", "--experiment", "mine")[0] == runs[:1]


def test_mistakes_are_told_in_a_sentence(store: Path) -> None:
    assert_refused(costmodel("experiments", "list"), "must be at out/mlflow.db", "--track")
    assert not Path("out").exists()
    assert_refused(costmodel("experiments", "list", "--tracking-uri", store), "there are none")
    with tracked_run(MlflowTracker(str(store)), "one", "mine"):
        pass
    assert_refused(costmodel("experiments", "show", "nope", "--tracking-uri", store), "'nope'")
    refused = costmodel("experiments", "list", "--experiment", "x", "--tracking-uri", store)
    assert_refused(refused, "of experiment x")
    refused = costmodel("experiments", "log", "nowhere", "--tracking-uri", store)
    assert_refused(refused, "must hold result.json")


def test_without_mlflow_all_but_tracking_works() -> None:
    command = [sys.executable, "-c", WITHOUT_MLFLOW]
    asked = [*command, "experiments", "list", "--tracking-uri", "mine.db"]
    Path("mine.db").touch()
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert listed.returncode == 2
    assert "-m pip install" in listed.stderr
    assert "[mlflow]" in listed.stderr
    devices = [*command, "devices", "list"]
    assert subprocess.run(devices, capture_output=True, text=True, check=False).returncode == 0
