import json
import subprocess
from pathlib import Path

import pytest
from recorded_tracker import RecordedTracker

from costmodel.errors import CostModelError
from costmodel.tracking import Artifact, Metric, Parameter, tracked_run
from costmodel.tracking._base import compare_runs, find_run
from costmodel.tracking._describe import (
    describe_commit,
    describe_config,
    describe_environment,
    describe_folder,
)
from costmodel.tracking._items import Note
from costmodel.tracking._uri import how_to_look, resolve_tracking_uri

pytestmark = pytest.mark.white_box

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_commit_is_that_of_the_source_and_changes_are_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "source.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert {tag.name: tag.value for tag in describe_commit(tmp_path)} == {
        "git.commit": head,
        "git.dirty": "no",
    }
    (tmp_path / "source.py").write_text("2")
    assert {tag.name: tag.value for tag in describe_commit(tmp_path)}["git.dirty"] == "yes"


def test_a_package_installed_in_a_checkout_of_something_else_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "kept").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    installed = tmp_path / "site-packages" / "costmodel"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert list(describe_commit(installed)) == []


def test_no_commit_outside_of_a_checkout(tmp_path: Path) -> None:
    assert list(describe_commit(tmp_path)) == []


def test_environment_tells_software_and_hardware() -> None:
    import numpy as np

    found = {tag.name: tag.value for tag in describe_environment()}
    assert found["software.numpy"] == np.__version__
    assert int(found["hardware.cores"]) >= 1
    assert found["hardware.cpu"]
    assert all(found.values())


def test_every_option_is_a_parameter_and_in_one_file(tmp_path: Path) -> None:
    config = {"seed": 3, "json": None, "learners": ("a", "b"), "out": Path("x"), "space": {"sms": 8}}
    *parameters, file = describe_config(config)
    assert parameters == [
        Parameter("seed", "3"),
        Parameter("json", "none"),
        Parameter("learners", "a, b"),
        Parameter("out", "x"),
        Parameter("space.sms", "8"),
    ]
    assert isinstance(file, Artifact)
    file.write(tmp_path / "config.json")
    assert json.loads((tmp_path / "config.json").read_text())["learners"] == ["a", "b"]


def test_numbers_of_a_result_are_metrics_by_their_way(tmp_path: Path) -> None:
    result = {
        "kills": 3,
        "fine": True,
        "note": "text",
        "by": [{"learner": "a", "score": 0.5}, {"learner": "b", "score": 0.25}],
        "curve": [4.0, 5.0],
    }
    (tmp_path / "result.json").write_text(json.dumps(result))
    (tmp_path / "config.toml").write_text("seed = 7\n[space]\nsms = 8\n")
    (tmp_path / "README.md").write_text("# Question")
    (tmp_path / "plot.png").write_bytes(b"picture")
    (tmp_path / "run.py").write_text("")
    items = list(describe_folder(tmp_path))
    assert [item for item in items if isinstance(item, Metric)] == [
        Metric("kills", 3.0),
        Metric("by/a/score", 0.5),
        Metric("by/b/score", 0.25),
        Metric("curve", 4.0, 0),
        Metric("curve", 5.0, 1),
    ]
    assert Parameter("space.sms", "8") in items
    assert Note("# Question") in items
    files = {item.path for item in items if isinstance(item, Artifact)}
    assert files == {"result.json", "config.toml", "config.json", "README.md", "plot.png"}


@pytest.mark.parametrize("folder", sorted(EXPERIMENTS.glob("*/result.json")), ids=lambda f: f.parent.name)
def test_folders_of_our_experiments_are_logged(folder: Path) -> None:
    tracker = RecordedTracker()
    with tracked_run(tracker, folder.parent.name, "any") as run:
        run.log(describe_folder(folder.parent))
    assert tracker.runs()[0].metrics


def test_a_folder_without_a_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"must hold result\.json"):
        list(describe_folder(tmp_path))
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(CostModelError, match="must be a JSON file"):
        list(describe_folder(tmp_path))


def test_runs_are_found_by_a_beginning_that_is_unique() -> None:
    tracker = RecordedTracker()
    for name in ("a", "b"):
        with tracked_run(tracker, name, "any"):
            pass
    runs = tracker.runs()
    assert find_run(runs, runs[0].run_id) is runs[0]
    with pytest.raises(CostModelError, match="begins like 2"):
        find_run(runs, "0000")
    for unknown in ("f", ""):
        with pytest.raises(CostModelError, match="must be one that"):
            find_run(runs, unknown)


def test_a_comparison_holds_what_differs() -> None:
    tracker = RecordedTracker()
    for seed, score in ((1, 0.5), (2, 0.75)):
        with tracked_run(tracker, f"seed {seed}", "any") as run:
            run.log([Parameter("seed", seed), Parameter("same", 1), Metric("score", score)])
            run.log([Metric(f"only of {seed}", 1.0)])
    found = compare_runs(list(reversed(tracker.runs())))
    assert [(d.name, d.values) for d in found.parameters] == [("seed", ("1", "2"))]
    assert [(d.name, d.values) for d in found.metrics] == [("score", (0.5, 0.75))]
    assert found.tags == ()
    with pytest.raises(CostModelError, match="Two different runs"):
        compare_runs([tracker.runs()[0]] * 2)


def test_the_place_is_the_first_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COSTMODEL_TRACKING_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    assert resolve_tracking_uri() == "sqlite:///out/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow")
    assert resolve_tracking_uri() == "http://mlflow"
    monkeypatch.setenv("COSTMODEL_TRACKING_URI", "http://ours")
    assert resolve_tracking_uri() == "http://ours"
    assert resolve_tracking_uri("mine.db") == "sqlite:///mine.db"
    assert resolve_tracking_uri("postgresql://host/runs") == "postgresql+psycopg2://host/runs"
    assert "mlflow ui --backend-store-uri sqlite:///mine.db, then open http" in how_to_look(
        "sqlite:///mine.db"
    )
    for wrong in ("./mlruns", "file:///tmp/x", "databricks"):
        with pytest.raises(CostModelError, match="A tracking URI must be"):
            resolve_tracking_uri(wrong)
