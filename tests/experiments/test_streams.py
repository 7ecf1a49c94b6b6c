"""Schedules are judged by all that a small graph has; networks are run on streams, as a rehearsal."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from experiment_folder import found_beside

from costmodel.planner import beside_others, on_streams, replay
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._schedule import Kernels
from costmodel.planner.whatif._sharing import first_come

sys.path.append(str(Path(__file__).parents[1] / "planner"))
from kineto_traces import Machine

pytestmark = pytest.mark.white_box

FOLDER = Path(__file__).parents[2] / "experiments" / "streams"


@pytest.fixture
def references() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ["references", "cases"]):
        import references  # type: ignore[import-not-found, unused-ignore]

        yield references


@pytest.fixture
def cases() -> Iterator[ModuleType]:
    with found_beside(FOLDER, ["cases"]):
        import cases  # type: ignore[import-not-found, unused-ignore]

        yield cases


def task(name: str, us: float, after: str = "", **facts: int) -> JsonTask:
    """A kernel that keeps a tenth of the SMs busy."""
    launch = {"sms": 100, "blocks": 10, "block_warps": 10, "sm_blocks": 1}
    return JsonTask(name, us * 1e-6, name=name, scope=name, after=after.split(), **(launch | facts))


AS_ALONE = partial(first_come, beside=1.0)
DIAMOND = [
    task("in", 2),
    task("left", 8, "in"),
    task("right", 6, "in"),
    task("more", 3, "right"),
    task("cat", 2, "left more"),
]


def test_all_schedules_are_tried(references: ModuleType) -> None:
    assert [sum(1 for _ in references._every(range(n))) for n in range(5)] == [1, 1, 3, 13, 73]
    kernels = Kernels.of(graph_of(DIAMOND, "a test"), wait_s=1e-6, contention=AS_ALONE)
    assert references.exhaustive_s(kernels) * 1e6 == pytest.approx(2 + 6 + 3 + 2 + 1)  # "left" must wait


def test_lines_take_what_their_graph_takes_and_circles_take_forever(references: ModuleType) -> None:
    graph = graph_of(DIAMOND, "a test")
    kernels = Kernels.of(graph, wait_s=1e-6, contention=AS_ALONE)
    number = {kernels.graph.name(i): i for i in range(len(graph))}
    lines = [[number[name] for name in line] for line in (["in", "right", "more", "cat"], ["left"])]
    covered = replay(beside_others(on_streams(graph, 2), wait_s=1e-6, contention=AS_ALONE)).makespan_s
    assert references.makespan_s(kernels, lines) == pytest.approx(covered)
    backwards = [[number[name] for name in ("in", "left", "cat", "more", "right")]]
    assert references.makespan_s(kernels, backwards) == float("inf")


def test_stages_wait_for_all_of_the_one_before(references: ModuleType) -> None:
    """In; then left beside right and more, one after the other; then the end of the block."""
    kernels = Kernels.of(graph_of(DIAMOND, "a test"), wait_s=1e-6, contention=AS_ALONE)
    assert references.stages_s(kernels) * 1e6 == pytest.approx(2 + (6 + 3 + 1) + 2)


def test_epilogues_become_part_of_their_convolution(cases: ModuleType) -> None:
    tasks = [
        task("Conv2d", 8),
        task("BatchNorm2d", 2, "Conv2d"),
        task("ReLU", 2, "BatchNorm2d"),
        task("pool", 2, "ReLU"),
        task("ReLU_again", 2, "ReLU"),  # two read what the first wrote, so it is no epilogue
        task("cat", 2, "pool ReLU_again"),
    ]
    found = {each.id: each for each in cases.with_epilogues(tasks)}
    assert list(found) == ["Conv2d", "pool", "ReLU_again", "cat"]
    assert found["Conv2d"].duration_s == pytest.approx(8e-6)
    assert found["pool"].after == ["Conv2d"]


def test_schedules_stand_beside_references(tmp_path: Path) -> None:
    rows = [
        {"network": "diamond", "dtype": "float16", "tasks": msgspec.to_builtins(DIAMOND)},
        {"network": "failed", "dtype": "float16", "error": "RuntimeError: no"},
    ]
    graphs = tmp_path / "graphs.jsonl"
    graphs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, FOLDER / "run.py", "--graphs", graphs, "--json", tmp_path / "result.json"]
    counts = ["--small", "2", "--medium", "2", "--large", "1"]
    done = subprocess.run([*command, *counts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert [row["graph"] for row in found] == ["diamond", "small", "small", "medium", "medium", "large"]
    for row in found:
        times = row["makespan_s"]
        assert times["ours"] <= times["one"] * (1 + 1e-9)
        assert times.get("exhaustive", 0.0) <= times["ours"] * (1 + 1e-9)
    assert "| 2 small | 6 |" in done.stdout
    assert "| as assumed | 6 | 100.0 % |" in done.stdout


def test_what_was_measured_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / "report.py", "--json", tmp_path / "live.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    readme = (FOLDER / "README.md").read_text()
    for table in done.stdout.split("\n\n")[:3]:  # what ways took, measured stages, errors of models
        assert table in readme
    found = json.loads((tmp_path / "live.json").read_text())
    assert found["slower_than_one"] == 0
    recorded = json.loads((FOLDER / "live.json").read_text())
    assert found["errors"]["now"]["float16"] == pytest.approx(recorded["errors"]["now"]["float16"], rel=1e-6)


def test_stages_that_are_measured_are_those_of_the_model(references: ModuleType) -> None:
    kernels = Kernels.of(graph_of(DIAMOND, "a test"), wait_s=1e-6, contention=AS_ALONE)
    stages = references.best_stages(kernels, lambda lines: sum(map(len, lines)) ** 2 / len(lines))
    names = [[[kernels.graph.name(task) for task in line] for line in lines] for lines in stages]
    assert sorted(name for lines in names for line in lines for name in line) == sorted(
        each.id for each in DIAMOND
    )


@pytest.mark.torch
def test_kernels_of_a_trace_are_those_of_nodes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    machine = Machine()
    for run in range(3):
        for node, kernels in {"conv": [8.0 + run], "norm": [3.0, 2.0], "view": []}.items():
            span = machine.host(node, 0.0, "user_annotation")
            for kernel in kernels:
                machine.operator("aten::op", f"{node}_kernel", kernel)
            span["dur"] = machine.now - span["ts"]
        machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    with found_beside(FOLDER, ["facts", "runs", "networks"]):
        import facts  # type: ignore[import-not-found, unused-ignore]

        found = facts.by_scope(graph, {"conv", "norm", "view"}, 3)
        needs = {"conv": [], "norm": ["conv"], "view": ["norm"], "last": ["view"]}
        tasks = facts.kernel_tasks(needs, found | {"last": found["conv"]})
        with pytest.raises(RuntimeError, match="2 runs must launch as many kernels each"):
            facts.by_scope(graph, {"conv"}, 2)
    assert [(each.id, each.after) for each in tasks] == [("conv", []), ("norm", ["conv"]), ("last", ["norm"])]
    assert [each.duration_s * 1e6 for each in tasks] == pytest.approx([9.0, 5.33, 9.0])


@pytest.mark.torch
def test_networks_run_on_streams_as_rehearsed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, FOLDER / "measure.py", "--out", tmp_path, "--device", "cpu", "--rounds", "2"]
    command += ["--only", "inception-a"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["dtype"] for row in rows] == ["float16", "float32"]
    for row in rows:
        assert row["same"] == {"one": True, "nimble": True, "ours": True}
        assert set(row["measured_s"]) == {"module", "one", "one again", "nimble", "ours"}
        assert row["streams"]["ours"] > 1
        assert row["predicted_s"]["ours"] <= row["predicted_s"]["nimble"] < row["predicted_s"]["one"]
    (staged,) = [json.loads(line) for line in (tmp_path / "stages.jsonl").read_text().splitlines()]
    assert staged["same"] == {"stages": True}
    assert staged["stages_measured"] > len(staged["stages"]) > 1
    nodes = [node for stage in staged["stages"] for line in stage for node in line]
    assert sorted(nodes) == sorted(rows[0]["placements"]["ours"]["order"])
    late = subprocess.run([*command, "--time-limit", "0"], capture_output=True, text=True, check=False)
    assert "no time was left" in late.stdout


@pytest.mark.torch
def test_a_machine_without_a_gpu_is_told_so(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, FOLDER / "measure.py", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "A GPU that PyTorch can use is needed" in done.stderr
