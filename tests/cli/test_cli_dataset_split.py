"""``costmodel dataset split``: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest
from fake_devices import measured_on
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.dataset import CardHeader, build_dataset, load_dataset, make_split, read_split
from costmodel.dataset.splits._make import SplitRecipe
from costmodel.dataset.table._files import hash_dataset
from costmodel.records import RecordStore

pytestmark = pytest.mark.white_box


def split(*arguments: object, name: str = "mine") -> Result:
    command = ["dataset", "split", *map(str, arguments), "--name", name]
    return CliRunner().invoke(app, command, env={"COLUMNS": "120"})


def table(output: str) -> list[list[str]]:
    """Cells of the rows whose last cell is a number."""
    return [cells for line in output.splitlines() if (cells := line.split()) and cells[-1].isdigit()]


def test_it_prints_folds_and_writes_them(built: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = split(built, "--strategy", "leave-one-budget-out", "--json", report)
    assert result.exit_code == 0, result.output
    assert table(result.stdout) == [[sms, "45", "15", "3"] for sms in ("8", "32", "64", "132")]
    file = built / "splits" / "mine.json"
    assert f"Written: {file} (leave-one-budget-out, folds: 4)" in result.stdout
    assert json.loads(report.read_text()) == {
        "path": str(file),
        "name": "mine",
        "strategy": "leave-one-budget-out",
        "seed": 0,
        "parameters": {},
        "dataset_sha256": hash_dataset(built),
        "twins": [],
        "folds": [
            {"held_out": sms, "train_rows": 45, "shots": 0, "test_rows": 15, "tasks": 3}
            for sms in ("8", "32", "64", "132")
        ],
    }


def test_shots_have_a_column(built: Path) -> None:
    result = split(built, "--strategy", "few-shot", "--shots", 2, "--base", "leave-one-operator-kind-out")
    assert "of these shots" in result.stdout
    assert table(result.stdout) == [[kind, "48", "8", "12", "4"] for kind in ("conv2d", "matmul", "softmax")]


def test_twins_are_named(tmp_path: Path, header: CardHeader) -> None:
    with RecordStore(tmp_path / "records.jsonl") as store:
        store.append(
            [
                measured_on(device, tile=tile, latency_s=1e-3 * factor)
                for tile in range(1, 9)
                for device, factor in (("A", tile), ("B", 3 * tile), ("C", 9 - tile))
            ]
        )
    built = build_dataset([tmp_path / "records.jsonl"], tmp_path / "built", header=header).path
    result = split(built, "--strategy", "leave-one-device-out")
    assert "Near-twins, held out together: A, B\n" in result.stdout
    assert table(result.stdout) == [["A", "+", "B", "8", "16", "2"], ["C", "16", "8", "1"]]
    apart = split(built, "--strategy", "leave-one-device-out", "--keep-twins-apart", name="apart")
    assert "Near-twins" not in apart.stdout
    assert table(apart.stdout) == [[device, "16", "8", "1"] for device in "ABC"]


@pytest.mark.parametrize("strategy", ["random", "few-shot"])
def test_options_not_given_are_those_of_the_recipe(built: Path, strategy: str) -> None:
    assert split(built, "--strategy", strategy).exit_code == 0
    dataset = load_dataset(built)
    assert read_split(dataset, "mine").recipe == make_split(dataset, SplitRecipe(strategy)).recipe


def test_again_is_nothing_new_and_another_needs_force(built: Path) -> None:
    assert split(built, "--strategy", "random", "--share", 0.4).exit_code == 0
    data = (built / "splits" / "mine.json").read_bytes()
    assert split(built, "--strategy", "random", "--share", 0.4).exit_code == 0
    assert (built / "splits" / "mine.json").read_bytes() == data
    refused = split(built, "--strategy", "random")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert split(built, "--strategy", "random", "--force").exit_code == 0
    assert (built / "splits" / "mine.json").read_bytes() != data


@pytest.mark.parametrize(
    ("arguments", "name", "message"),
    [
        (["--strategy", "by-magic"], "mine", "A split must be one of"),
        (["--strategy", "random"], "random", "differ from the names of strategies"),
        (["--strategy", "random"], "", "but got ''"),
        (["--strategy", "random", "--shots", "3"], "mine", "shots must be left out"),
        (["--strategy", "leave-one-device-out"], "mine", "needs at least two"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    built: Path, arguments: list[str], name: str, message: str
) -> None:
    result = split(built, *arguments, name=name)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not (built / "splits").exists()
