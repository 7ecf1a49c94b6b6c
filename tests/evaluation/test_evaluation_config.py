"""What an evaluation is told by a file, and what its messages say."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.dataset import find_dataset
from costmodel.errors import CostModelError
from costmodel.evaluation._config import EvaluationConfig
from costmodel.evaluation._judge import FewShot

pytestmark = pytest.mark.white_box


def written(folder: Path, text: str) -> Path:
    file = folder / "evaluation.toml"
    file.write_text(text)
    return file


def test_a_file_is_read_and_what_is_given_wins(tmp_path: Path) -> None:
    file = written(
        tmp_path, 'dataset = "data"\nfolds = 4\nshots = [0, 2]\nfirst = "random"\nseed = 3\nseeds = 2\n'
    )
    config = EvaluationConfig.load(file, {"folds": 6, "dataset": Path("other")})
    assert (config.dataset, config.folds) == ("other", 6)
    assert config.few_shot == FewShot((0, 2), "random", 3)
    assert config.used_seeds == (3, 4)
    assert config.learners == EvaluationConfig().learners
    assert EvaluationConfig.load(None) == EvaluationConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fold = 3", r"evaluation\.toml: An evaluation must have keys .*folds.* but got 'fold'"),
        ("folds = '3'", r"evaluation\.toml: folds must be a whole number of at least 0, but got '3'"),
        ("folds = -1", r"folds must be a whole number of at least 0, but got -1"),
        ("folds = true", r"folds must be a whole number of at least 0, but got True"),
        ("tasks = 0", r"tasks must be a whole number of at least 1, but got 0"),
        ("dataset = 3", r"dataset must be the name or the path of a dataset, but got 3"),
        ("train = 'a'", r"train must be a list of names or paths of datasets, but got 'a'"),
        ("learners = []", r"learners must be a list of names of learners, but got \[\]"),
        ("learners = ['oracle']", r"evaluation\.toml: A learner must be one of .*random, .*'oracle'"),
        ("baseline = 'oracle'", r"baseline must be among the learners, random, .*'oracle'"),
        ("first = 'best'", r"first must be own or random, but got 'best'"),
        ("shared_tasks = 'lose'", r"shared_tasks must be refuse, drop or keep, but got 'lose'"),
        ("keep_twins_apart = 1", r"keep_twins_apart must be true or false, but got 1"),
        ("shots = [2, 1]", r"evaluation\.toml: Shots must be numbers .* ascending.*2,1"),
        ("shots = [-1]", r"shots must be a list of numbers of at least 0"),
        ("train = ['a']", r"must be given together"),
        ("train = ['a']\ntest = 'b'\nfolds = 2", r"must be given together"),
        ("folds = ", r"evaluation\.toml must be an evaluation in TOML"),
    ],
)
def test_what_is_wrong_is_told_with_file_key_and_what_is_allowed(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(CostModelError, match=message):
        EvaluationConfig.load(written(tmp_path, text))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"Cannot read .*none\.toml: No such file"):
        EvaluationConfig.load(tmp_path / "none.toml")


def evaluated(folder: Path, *arguments: str) -> Any:
    """What the command writes for these arguments."""
    report = folder / "report.json"
    done = CliRunner().invoke(app, ["evaluate", *arguments, "--json", str(report)])
    assert done.exit_code == 0, done.output
    return json.loads(report.read_text())


def test_the_command_reads_a_file_and_its_options_win(tmp_path: Path) -> None:
    text = f'dataset = "{find_dataset()}"\nlearners = ["analytic"]\nfolds = 3\ntasks = 4\nshots = [1, 2]\n'
    file = str(written(tmp_path, text))
    found = evaluated(tmp_path, "--config", file, "--folds", "2", "--seed", "5", "--shots", "0,1")
    config = found["config"]
    assert config["dataset"] == find_dataset().name
    assert (config["folds"], config["tasks"], config["seed"], config["shots"]) == (2, 4, 5, [0, 1])
    assert config["learners"] == ["analytic"]
    assert len(found["folds"]) == 2
    assert len({task["task"] for task in found["tasks"]}) == 4
    assert {row["shots"] for row in found["shots"]} == {0, 1}


def test_an_option_that_is_given_as_its_default_wins_too(tmp_path: Path) -> None:
    text = 'learners = ["analytic"]\nfirst = "random"\nfolds = 3\ntasks = 2\nshots = [1]\n'
    file = str(written(tmp_path, text))
    assert evaluated(tmp_path, "--config", file, "--first", "own")["config"]["first"] == "own"
    assert evaluated(tmp_path, "--config", file)["config"]["first"] == "random"


def test_a_wrong_file_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = written(tmp_path, "fold = 3")
    done = CliRunner().invoke(app, ["evaluate", "--config", str(file)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {file}: An evaluation must have keys among")
