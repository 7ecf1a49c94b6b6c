import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from costmodel.dataset import load_dataset
from costmodel.dataset.publish._describe import describe_used_dataset
from costmodel.dataset.table._files import hash_dataset
from costmodel.errors import CostModelError
from costmodel.tracking import Artifact, Metric, MlflowTracker, Parameter, tracked_run
from costmodel.tracking._uri import how_to_look

pytestmark = pytest.mark.white_box


def test_a_thousand_metrics_and_many_parameters_are_logged(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "many", "any") as run:
        run.log([Metric(f"m{i}", i, i) for i in range(1001)] + [Parameter(f"p{i}", i) for i in range(101)])
    (found,) = tracker.runs()
    assert found.metrics == {f"m{i}": float(i) for i in range(1001)}
    assert list(found.metrics)[:12] == [f"m{i}" for i in range(12)]
    assert len(found.parameters) == 101


def test_names_that_mlflow_refuses_are_rewritten(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "names", "any") as run:
        run.log([Metric("score/ridge+intervals", 1.0), Metric("worst %: p90", 2.0)])
    assert tracker.runs()[0].metrics == {"score/ridge_intervals": 1.0, "worst _: p90": 2.0}


def test_long_names_stay_distinct_and_odd_ones_are_paths(tracker: MlflowTracker) -> None:
    names = ["a" * 251, "a" * 250 + "b", "b" * 250, "x//y", "../z", "/w", "v/", ".", "é" * 300]
    with tracked_run(tracker, "names", "any") as run:
        run.log(Metric(name, float(i)) for i, name in enumerate(names))
        run.log([Parameter("p" * 251, 1)])
    found = tracker.runs()[0].metrics
    assert sorted(found.values()) == sorted(map(float, range(len(names))))
    assert {"b" * 250, "x/_/y", "__/z", "_/w", "v/_", "_"} <= set(found)
    assert max(map(len, found)) == 250


@pytest.mark.parametrize("name", ["c%41.db", "a?b#c.db", "a b.db", "{0}.sqlite"])
def test_the_name_of_a_file_stays_as_it_is(empty_store: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(empty_store, tmp_path / name)
    tracker = MlflowTracker(str(tmp_path / name))
    with tracked_run(tracker, "one", "any") as run:
        run.log([Metric("score", 1.0), Artifact.of_text("note.txt", "see x://bob:s3cret@host")])
    folder = tmp_path / f"{Path(name).stem}-artifacts"
    assert {path.name.removesuffix(".lock") for path in tmp_path.iterdir()} == {name, folder.name}
    (note,) = folder.rglob("note.txt")
    assert note.read_text() == "see x://bob:***@host"
    assert len(MlflowTracker.open_existing(str(tmp_path / name)).runs()) == 1


def test_a_curve_has_all_of_its_steps(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "curve", "any") as run:
        run.log(Metric("by_sms/score_at_1", sms / 132, sms) for sms in (8, 32, 132))
    history = tracker._client.get_metric_history(run.run_id, "by_sms/score_at_1")
    assert [(point.step, point.value) for point in history] == [(sms, sms / 132) for sms in (8, 32, 132)]


def test_a_dataset_is_one_of_mlflow(tracker: MlflowTracker, dataset: Path) -> None:
    import mlflow

    with tracked_run(tracker, "data", "any") as run:
        run.log([describe_used_dataset(dataset, "training")])
    (found,) = tracker.runs()
    (used,) = found.datasets
    data = load_dataset(dataset)
    assert used.name == "landscape"
    assert hash_dataset(dataset).startswith(used.digest)
    assert found.tags["dataset.landscape.sha256"] == hash_dataset(dataset)
    assert used.profile["num_rows"] == len(data.measurements)
    assert used.profile["candidates"] == len(data.candidates)
    stored = tracker._client.get_run(run.run_id).inputs.dataset_inputs[0].dataset
    assert mlflow.data.get_source(stored).load() == str(dataset / "measurements.parquet")
    columns = json.dumps(json.loads(stored.schema)["mlflow_colspec"])
    assert mlflow.types.Schema.from_json(columns).input_names()[:2] == ["workload", "kind"]


def test_files_lie_beside_the_store(tracker: MlflowTracker, store: Path) -> None:
    with tracked_run(tracker, "one", "any") as run:
        run.log([])
    uri = tracker._client.get_run(run.run_id).info.artifact_uri
    assert uri.startswith((store.parent / "mlflow-artifacts").as_uri())


def test_an_experiment_that_was_deleted_is_refused(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "one", "gone"):
        pass
    tracker._client.delete_experiment(tracker._client.get_experiment_by_name("gone").experiment_id)
    with pytest.raises(CostModelError, match="must not be deleted"):
        tracker.start("two", "gone")


def test_what_mlflow_refuses_is_told_in_a_sentence(tracker: MlflowTracker) -> None:
    with pytest.raises(CostModelError, match="must answer"):
        tracker.log_values("0" * 32, [Metric("score", 1.0)])


def test_a_parameter_is_chosen_once(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "twice", "any") as run:
        run.log([Parameter("seed", 1)])
        with pytest.raises(CostModelError):
            run.log([Parameter("seed", 2)])


def test_an_experiment_that_another_process_makes_in_this_moment_is_taken(
    tracker: MlflowTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.start("theirs", "shared")
    find = tracker._client.get_experiment_by_name
    answers = iter([None])
    monkeypatch.setattr(tracker._client, "get_experiment_by_name", lambda name: next(answers, find(name)))
    tracker.start("ours", "shared")
    assert {run.name for run in tracker.runs()} == {"theirs", "ours"}


def test_processes_that_open_a_new_place_at_once_all_track_there(tmp_path: Path) -> None:
    place = tmp_path / "new" / "mlflow.db"
    script = "import sys; from costmodel.tracking import MlflowTracker as M; M(sys.argv[1]).start('r', 'all')"
    processes = [subprocess.Popen([sys.executable, "-c", script, place]) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(MlflowTracker(str(place)).runs()) == 2


@pytest.mark.parametrize("place", ["/proc/mlflow.db", "file/mlflow.db"])
def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path, monkeypatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CostModelError, match=r"mlflow\.db"):
        MlflowTracker(place)


def test_a_database_that_cannot_be_used_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_bytes(b"no database" * 1000)
    with pytest.raises(CostModelError, match=r"must answer, but: .*file is not a database") as told:
        MlflowTracker(str(tmp_path / "mlflow.db"))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("column", ["start_time", "end_time"])
def test_a_run_that_was_altered_is_refused_in_a_sentence(
    tracker: MlflowTracker, store: Path, column: str
) -> None:
    with tracked_run(tracker, "one", "any"):
        pass
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(f"UPDATE runs SET {column} = 'noon'")
        connection.commit()
    with pytest.raises(CostModelError, match=r"must be a run as MLflow keeps it, but: .*str"):
        MlflowTracker(str(store)).runs()


def test_the_page_of_a_run_is_the_one_that_shows_it(tracker: MlflowTracker) -> None:
    with tracked_run(tracker, "one", "any") as run:
        pass
    page = tracker.page(run.run_id)
    experiment = tracker._client.get_experiment_by_name("any").experiment_id
    assert page == f"#/experiments/{experiment}/runs/{run.run_id}"
    assert how_to_look("http://host:5000/", page) == f"open http://host:5000/{page}"
    assert how_to_look("sqlite:///a.db", page).endswith(f", then open http://localhost:5000/{page}")
