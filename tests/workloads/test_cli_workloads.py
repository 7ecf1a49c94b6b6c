import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.collector import CampaignConfig
from costmodel.workloads import catalogue
from costmodel.workloads._sample import sample_workloads

pytestmark = pytest.mark.white_box


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def test_list_shows_each_workload_with_its_networks(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    result = costmodel("workloads", "list", "--network", "bert_base", "--dtype", "float16", "--json", file)
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if "softmax-m1536-n128-float16" in line)
    assert row.split() == ["softmax-m1536-n128-float16", "1.0", "0.8", "12", "in", "bert_base-s128"]
    written = json.loads(file.read_text())
    assert [each["workload"] for each in written] == [
        entry.workload.name for entry in catalogue("bert_base", "float16")
    ]
    assert written[0]["networks"] == catalogue("bert_base", "float16")[0].networks


def test_list_shows_all_without_options() -> None:
    assert f"{len(catalogue())} workloads" in costmodel("workloads", "list").stdout


@pytest.mark.parametrize("command", ["list", "extract"])
def test_an_unknown_network_is_refused(command: str) -> None:
    option = ["--network"] if command == "list" else []
    result = costmodel("workloads", command, *option, "nonsense")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: The network must be one of resnet50-n1, ")
    assert result.stderr.count("\n") == 1


def test_sample_prints_the_list_of_a_campaign(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    options = ["--count", "7", "--seed", "3", "--apart-from", "sm-budgets"]
    result = costmodel("workloads", "sample", *options, "--json", file)
    assert result.exit_code == 0
    names = tomllib.loads(result.stdout)["workloads"]
    campaign = CampaignConfig.load(Path("sm-budgets"))
    apart = [*campaign.left_out, *(each.shape for each in campaign.parsed_workloads)]
    assert names == [each.name for each in sample_workloads(7, 3, apart_from=apart)]
    assert names == json.loads(file.read_text())


@pytest.mark.tvm
def test_extract_tells_workloads_and_what_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    file = tmp_path / "extraction.json"
    result = costmodel("workloads", "extract", "mobilenet_v2-n1", "--dtype", "float32", "--json", file)
    assert result.exit_code == 0
    assert "mean (no workload)" in result.stdout
    assert "leaves these to TVM's evolution" in " ".join(result.stdout.split())
    (written,) = json.loads(file.read_text())
    assert written["workloads"]["depthwise_conv2d_bias_relu6-n1-c960-h7-w7-k3-s1"] == 3
