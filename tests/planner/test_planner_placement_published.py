"""The published graphs of Tarnawski et al. and what is known of them; files of their kind; the command."""

import json
from pathlib import Path

import msgspec
import pytest
from public_data import PLACEMENT, needs_placement_graphs
from typer.testing import CliRunner, Result

from costmodel.cli._app import app
from costmodel.errors import CostModelError
from costmodel.planner import PlacementDevice, place
from costmodel.planner.placement._place import judge_placement
from costmodel.planner.placement._problem import read_placed_nodes, read_placement

pytestmark = pytest.mark.white_box

THROUGHPUT = PLACEMENT / "throughput-inputs"
LATENCY = PLACEMENT / "latency-inputs" / "LayerGraphs" / "bert24_inference.json"
EXPERT = PLACEMENT / "human-experts" / "bert24_inference_expert.json"


def graph(**changes: object) -> dict[str, object]:
    nodes = [
        {"id": i, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 1.5, "isBackwardNode": 0, "size": 2.5}
        for i in range(4)
    ]
    edges = [{"sourceId": i, "destId": i + 1, "cost": 0.25} for i in range(3)]
    return {"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges, **changes}


def written(folder: Path, content: object) -> Path:
    file = folder / "graph.json"
    file.write_text(json.dumps(content))
    return file


def costmodel(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["place", *map(str, arguments)], env={"COLUMNS": "160"})


@needs_placement_graphs
@pytest.mark.parametrize(
    ("name", "contiguous", "best"),
    [
        ("LayerGraphs/gnmt_inference.json", True, 32.9106),
        ("LayerGraphs/bert24_inference.json", True, 17.7899),
        ("LayerGraphs/bert24_inference.json", False, 17.7147),
        ("LayerGraphs/bert24_training.json", True, 41.7458),
        ("OperatorGraphs/bert_l-3_inference.json", True, 27.9186),
    ],
)
def test_known_optima_of_throughput_are_proven(name: str, contiguous: bool, best: float) -> None:
    found = place(read_placement(THROUGHPUT / name), contiguous=contiguous, time_limit_s=120)
    assert found.value == pytest.approx(best, abs=1e-4)
    assert found.bound == pytest.approx(best, abs=1e-3)
    assert found.is_optimal


@needs_placement_graphs
def test_latency_is_no_worse_than_greedy_and_an_expert() -> None:
    problem = read_placement(LATENCY)
    assert place(problem, "latency", method="greedy").value == pytest.approx(100.219, abs=1e-3)
    sixth = PlacementDevice(name="accelerator 6", memory=10**9)
    more = msgspec.structs.replace(problem, devices=(*problem.devices, sixth))
    assert judge_placement(more, read_placed_nodes(EXPERT, more), "latency").value == pytest.approx(
        111.937, abs=1e-3
    )
    with pytest.raises(CostModelError, match="at most 5 accelerators, but uses 6"):
        read_placed_nodes(EXPERT, problem)


@needs_placement_graphs
def test_an_experts_inference_serves_training() -> None:
    problem = read_placement(THROUGHPUT / "LayerGraphs" / "bert24_training.json")
    assert judge_placement(problem, read_placed_nodes(EXPERT, problem)).value > 41.7458


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    problem = read_placement(written(tmp_path, graph()))
    assert [device.name for device in problem.devices] == ["accelerator 1", "accelerator 2", "cpu 1"]
    assert [node.transfer for node in problem.nodes] == [0.25, 0.25, 0.25, 0.0]
    assert problem.nodes[0].memory == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maxFPGAs": "many"}, "must be a placement problem .*maxFPGAs`[.]$"),
        ({"maxFPGAs": 2**31 - 1}, "must be a placement problem .*maxFPGAs`[.]$"),
        ({"nodes": [{"id": 0}]}, "must be a placement problem .*cpuLatency"),
        ({"edges": [{"sourceId": 0, "destId": 9, "cost": 0}]}, "graph.json: An edge must join .* 0 to 9"),
        (
            {"edges": [{"sourceId": 0, "destId": i, "cost": i} for i in (1, 2)]},
            "those from node 0 have 1.0 and 2.0",
        ),
    ],
)
def test_a_wrong_file_is_said(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        read_placement(written(tmp_path, graph(**changes)))
    with pytest.raises(CostModelError, match=r"Cannot read .*none\.json"):
        read_placement(tmp_path / "none.json")


def test_the_command_shows_and_writes(tmp_path: Path) -> None:
    out = tmp_path / "placement.json"
    result = costmodel(written(tmp_path, graph()), "--json", out)
    assert result.exit_code == 0, result.output
    assert "Busiest device: 3.25 in the unit of the file, proven optimal; cp-sat" in result.stdout
    content = json.loads(out.read_text())
    assert content["value"] == 3.25
    assert sorted(content["device_of"]) == ["0", "1", "2", "3"]
    assert [len(each["nodes"]) for each in content["loads"]] == [2, 2, 0]


def test_options_of_the_command_change_devices(tmp_path: Path) -> None:
    file = written(tmp_path, graph())
    assert "One sample: 6 " in costmodel(file, "--objective", "latency").stdout
    assert "Busiest device: 6 " in costmodel(file, "--accelerators", 1).stdout
    assert "Busiest device: 4.75 " in costmodel(file, "--slices", "132,66").stdout
    assert "Busiest device: 2 " in costmodel(file, "--accelerators", 4).stdout
    assert "Busiest device: 18 " in costmodel(file, "--memory", 3, "--non-contiguous").stdout
    both = costmodel(file, "--slices", "132", "--accelerators", 2)
    assert both.exit_code == 2
    assert "but got both" in both.stderr
    assert costmodel(file, "--slices", "many").exit_code == 2
    assert costmodel(file, "--device", "H100").exit_code == 2


def test_a_file_tells_what_nodes_take_on_slices(tmp_path: Path) -> None:
    """Nodes that take 1.8 on 66 SMs instead of twice 1.5 are shared out evenly."""
    document = graph()
    document["nodes"] = [node | {"smLatency": {"66": 1.8, "132": 1.5}} for node in graph()["nodes"]]
    assert "Busiest device: 3.85 " in costmodel(written(tmp_path, document), "--slices", "132,66").stdout
