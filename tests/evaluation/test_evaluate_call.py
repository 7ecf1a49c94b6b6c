"""``costmodel.evaluate``: names, paths and objects in, a report out."""

import inspect
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.evaluation import EvaluationReport, cross_validate
from costmodel.evaluation._config import EvaluationConfig
from costmodel.evaluation._judge import RANDOM
from costmodel.testing import gpu_landscape
from costmodel.tuning import Across, evaluate

pytestmark = pytest.mark.white_box

WORKLOADS = ("matmul-m128-n768-k768", "matmul-m512-n512-k512", "matmul-m64-n2304-k768")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return gpu_landscape(workloads=WORKLOADS, configs_per_workload=12, sms=(8, 132))


@pytest.fixture(scope="module")
def report(data: Dataset) -> EvaluationReport:
    return evaluate(data, ["ridge", RANDOM], baseline="ridge", shots=[0, 2])


def test_its_defaults_are_those_of_a_configuration() -> None:
    """So that the documentation shows what a command without options does."""
    config = EvaluationConfig()
    named = {"split", "folds", "tasks", "baseline", "seed", "seeds", "dataset", "learners"}
    parameters = inspect.signature(evaluate).parameters
    assert {name: parameters[name].default for name in named} == {
        name: getattr(config, name) for name in named
    }
    assert tuple(parameters["shots"].default) == config.shots


def test_shots_are_one_number_or_several_and_nothing_else(data: Dataset) -> None:
    one, several = (evaluate(data, ["ridge"], shots=shots) for shots in (2, [2]))
    assert one.tasks.equals(several.tasks)
    with pytest.raises(CostModelError, match=r"shots must be a whole number .* got 'a'"):
        evaluate(data, ["ridge"], shots=["a"])


def test_random_is_the_exact_expectation_alone(data: Dataset, report: EvaluationReport) -> None:
    assert report.learners == [RANDOM, "whole device", "ridge"]
    exact = cross_validate(data, {}).summary()
    assert report.summary().loc[RANDOM, "score_at_1"] == exact.loc[RANDOM, "score_at_1"]
    assert report.summary().loc[RANDOM, "tasks"] == 6
    assert len(report.tasks[report.tasks["learner"] == RANDOM]) == 6


def test_a_report_says_where_it_comes_from(data: Dataset, report: EvaluationReport) -> None:
    found = report.to_dict()
    assert found["sha256"] == data.sha256
    assert found["folds"] == list(WORKLOADS)
    assert found["config"].learners == ("ridge", RANDOM)
    assert [entry["learner"] for entry in found["against"]] == [RANDOM]


def test_it_is_saved_whole(report: EvaluationReport, tmp_path: Path) -> None:
    report.save(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.json", "summary.csv", "tasks.csv", "against.csv", "report.png", "shots.png"} <= names
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["config"]["shots"] == [0, 2]


def test_one_dataset_teaches_and_another_judges(data: Dataset) -> None:
    other = gpu_landscape(workloads=["matmul-m256-n256-k256"], configs_per_workload=12, sms=(8, 132))
    report = evaluate(learners="consensus", split=Across([data], other))
    assert report.learners == [RANDOM, "whole device", "consensus"]
    assert set(report.tasks["workload"]) == {"matmul-m256-n256-k256"}
    assert report.source["train"] == [{"dataset": "in memory", "sha256": data.sha256}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learners": ["oracle"]}, "A learner must be one of"),
        ({"folds": -1}, "folds must be a whole number of at least 0, but got -1"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"baseline": "consensus"}, "baseline must be among the learners"),
        ({"test": "h100-sm-budgets"}, "train and test must be given together"),
        ({"shots": [2, 1]}, "ascending"),
        ({"split": "by-magic"}, "A split must be one of"),
    ],
)
@pytest.mark.filterwarnings("ignore:evaluate:DeprecationWarning")
def test_what_is_wrong_is_told_before_anything_is_learned(data: Dataset, settings, message) -> None:
    with pytest.raises(CostModelError, match=message):
        evaluate(data, **({"learners": ["ridge"]} | settings))


def test_former_keywords_mean_the_same_and_show_the_new_form(data: Dataset) -> None:
    other = gpu_landscape(workloads=["matmul-m256-n256-k256"], configs_per_workload=12, sms=(8, 132))
    with pytest.warns(DeprecationWarning, match=r"split=Across\(train, test\)"):
        before = evaluate(learners="consensus", train=[data], test=other)
    after = evaluate(learners="consensus", split=Across([data], other))
    assert str(before.to_dict()["summary"]) == str(after.to_dict()["summary"])  # has NaN
    with pytest.raises(TypeError, match="'fold'"):
        evaluate(data, fold=3)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_learned(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for option, place, message in (
        ("--plot", tmp_path / "report.jpg", "must be a file that ends in .png or .pdf or .svg"),
        ("--plot", tmp_path / "file" / "report.png", "is a file, not a folder"),
        ("--out", tmp_path / "file", "must be a folder to write"),
        ("--json", tmp_path, "must be a file to write"),
    ):
        # The dataset is not there either: were it looked at first, the message would be another.
        found = CliRunner().invoke(app, ["evaluate", "nowhere", option, str(place)])
        assert found.exit_code == 2
        assert message in " ".join(found.stderr.split())
