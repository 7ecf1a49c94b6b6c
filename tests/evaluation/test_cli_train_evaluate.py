import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import CardHeader, build_dataset
from costmodel.dataset.table._files import hash_dataset
from costmodel.records import Measurement, Outcome, RecordStore
from costmodel.testing import gpu_landscape
from costmodel.transfer import load_model
from costmodel.tuning import train

pytestmark = pytest.mark.white_box

HELD_OUT = "matmul-m64-n64-k64"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landscape as a dataset on disk."""
    folder = tmp_path_factory.mktemp("dataset")
    data = gpu_landscape(
        workloads=["matmul-m128-n64-k64", "matmul-m64-n128-k64", HELD_OUT],
        configs_per_workload=8,
        sms=(8, 132),
    )
    with RecordStore(folder / "records.jsonl") as store:
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
    header = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")
    build_dataset([folder / "records.jsonl"], folder / "built", header=header)
    return folder / "built"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_train_writes_a_model_that_says_where_it_comes_from(dataset, tmp_path) -> None:
    model, report = tmp_path / "model", tmp_path / "report.json"
    out = run(
        "train", dataset, "--out", model, "--learner", "ridge", "--hold-out", HELD_OUT, "--json", report
    )
    assert "ridge learned from 32 measurements of 2 workloads (4 tasks)" in out
    assert "evaluated on 2 held-out tasks; those of one config do not count" in out
    about = load_model(model).metadata
    assert about.dataset_sha256 == hash_dataset(dataset)
    assert about.dataset == "built"
    assert [device.name for device in about.devices] == ["landscape GPU"]
    assert [name.rsplit("/", 1)[1] for name in about.platforms] == ["8", "132"]
    assert about.held_out == (HELD_OUT,)
    assert len(about.workloads) == 2
    assert 0 < about.metrics["score_at_1"] <= 1
    assert "log2_waves" in about.columns
    assert {"costmodel", "python", "numpy"} <= about.versions.keys()
    assert json.loads(report.read_text())["rows"] == 32


def test_train_can_be_judged_by_folds_and_learn_from_everything(dataset, tmp_path) -> None:
    model = tmp_path / "model"
    run("train", dataset, "--out", model, "--learner", "ridge", "--folds", "3")
    about = load_model(model).metadata
    assert len(about.workloads) == len(about.folds) == 3
    assert (about.rows, about.tasks, about.held_out) == (48, 6, ())
    # Folds of one workload each are what holding it out alone is.
    alone = [train(dataset, "ridge", hold_out=[name]).metadata.metrics for name in about.workloads]
    assert about.metrics["score_at_1"] == pytest.approx(sum(each["score_at_1"] for each in alone) / 3)
    both = ["train", str(dataset), "--out", str(model), "--folds", "3", "--hold-out", HELD_OUT]
    result = CliRunner().invoke(app, both)
    assert result.exit_code == 2
    assert "on held-out workloads or by folds" in result.stderr


def test_evaluate_prints_tables_and_writes_json_and_picture(dataset, tmp_path) -> None:
    picture, report = tmp_path / "report.png", tmp_path / "report.json"
    out = run(
        "evaluate",
        dataset,
        "--learner",
        "ridge",
        "--learner",
        "consensus",
        "--json",
        report,
        "--plot",
        picture,
    )
    assert all(word in out for word in ("Score@1", "ridge", "consensus", "random", "gap recovered", "pooled"))
    assert picture.stat().st_size > 10_000
    written = json.loads(report.read_text())
    assert written["sha256"] == hash_dataset(dataset)
    assert written["split"] == "leave-one-workload-out"
    assert len(written["tasks"]) == 4 * 6


def test_evaluate_takes_a_written_split_until_the_dataset_changes(dataset, tmp_path) -> None:
    copy, report = Path(shutil.copytree(dataset, tmp_path / "copy")), tmp_path / "report.json"
    run("dataset", "split", copy, "--strategy", "few-shot", "--shots", "3", "--name", "three")
    run("evaluate", copy, "--split", "three", "--learner", "ridge", "--json", report)
    written = json.loads(report.read_text())
    assert written["split"] == "three"
    assert {task["configs"] for task in written["tasks"]} == {5}
    # The strategy by itself learns from 7 of 8, so that one is left.
    result = CliRunner().invoke(app, ["evaluate", str(copy), "--split", "few-shot", "--learner", "ridge"])
    assert result.exit_code == 2
    assert "two configs or more to choose among" in " ".join(result.stderr.split())
    file = copy / "measurements.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file)
    (copy / "SHA256SUMS").unlink()
    result = CliRunner().invoke(app, ["evaluate", str(copy), "--split", "three"])
    assert result.exit_code == 2
    assert "the dataset has changed since" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--split", "none"], "A split must be one of"),
        (["evaluate", "--learner", "oracle"], "A learner must be one of"),
        (
            ["train", "--out", "model", "--hold-out", "matmul-m1-n1-k1"],
            "Held-out workloads must be in the dataset",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(dataset, arguments, message) -> None:
    result = CliRunner().invoke(app, [arguments[0], str(dataset), *arguments[1:]])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_evaluate_prints_what_intervals_cover_after_measurements(dataset, tmp_path) -> None:
    out = run(
        "evaluate", dataset, "--learner", "ridge+intervals", "--shots", "0,2", "--out", tmp_path / "report"
    )
    assert "Coverage of intervals after n measurements" in out
    assert "Coverage of intervals (width), by SMs granted" in out
    lines = (tmp_path / "report" / "by_coverage.csv").read_text().splitlines()
    assert lines[0].startswith("learner,shots,by,of,coverage")
    # Over all, by one device and by two SM budgets, before and after two measurements.
    assert len(lines) == 1 + 2 * 4
