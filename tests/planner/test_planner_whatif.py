"""What-if transforms: what each changes, and that none makes a circle."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_traces import Machine, two_streams

from costmodel.errors import CostModelError
from costmodel.planner import (
    DependencyKind,
    KernelGraph,
    TaskKind,
    fuse,
    fused_optimizer,
    half_precision,
    on_sms,
    on_streams,
    plan,
    read_graph,
    read_kineto,
    remove_launches,
    replace_latencies,
    replay,
    scale,
    without_profiler,
)
from costmodel.planner.whatif import minimum_equivalent, parse_what_if

DIAMOND = [
    {"id": "in", "duration_s": 1e-6},
    {"id": "left", "duration_s": 8e-6, "after": ["in"]},
    {"id": "right", "duration_s": 6e-6, "after": ["in"]},
    {"id": "out", "duration_s": 1e-6, "after": ["left", "right"]},
]


def load(tmp_path: Path, tasks: list[dict[str, Any]]) -> KernelGraph:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return read_graph(path).graph


def names(graph: KernelGraph) -> list[str]:
    return [graph.name(task) for task in range(len(graph))]


@pytest.fixture
def trace(tmp_path: Path) -> KernelGraph:
    return read_kineto(two_streams(Machine()).save(tmp_path / "trace.json")).graph


def test_latencies_are_replaced_by_pattern_and_the_last_one_counts(trace: KernelGraph) -> None:
    changed = replace_latencies(trace, {"sgemm*": 1e-6, "SGEMM_graph": 2e-6})
    by_name = {changed.name(i): changed.durations_s[i] for i in np.flatnonzero(changed.on_device)}
    assert by_name["sgemm_128x64"] == 1e-6
    assert by_name["sgemm_graph"] == 2e-6
    assert by_name["conv_fprop"] == pytest.approx(35e-6)
    assert "12 kernels" not in changed.assumptions[0]
    assert len(changed.assumptions) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: scale(graph, "no such kernel", 2.0), "none matches 'no such kernel'"),
        (lambda graph: scale(graph, "aten::mm", 2.0), "must match the name of a kernel"),
        (lambda graph: scale(graph, "sgemm", -1.0), "factor must be a number that is not negative"),
        (lambda graph: replace_latencies(graph, {"sgemm": float("nan")}), "latency must be a number"),
        (lambda graph: on_sms(graph, 0), "at least 1, but got 0"),
        (lambda graph: on_sms(graph, 8), "sms:132=8"),
        (lambda graph: on_streams(graph, 0), "at least 1 and a slowdown positive"),
    ],
)
def test_a_change_that_does_not_apply_is_refused(
    trace: KernelGraph, change: Callable[[KernelGraph], KernelGraph], message: str
) -> None:
    with pytest.raises(CostModelError, match=message):
        change(trace)


def test_fewer_sms_make_kernels_slower_by_their_blocks_or_as_measured(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        [
            {"id": "gemm", "duration_s": 5e-6, "sms": 128},
            {"id": "gemm_of_few", "duration_s": 5e-6, "sms": 128, "blocks": 32},
            {"id": "gemm_of_many", "duration_s": 5e-6, "sms": 128, "blocks": 129},
            {"id": "add", "duration_s": 5e-6, "sms": 128},
            {"id": "softmax", "duration_s": 5e-6, "sms": 128},
            {"id": "tiny", "duration_s": 5e-7, "sms": 128},
            {"id": "copy", "kind": "copy", "duration_s": 3e-6},
        ],
    )
    # 1 us to start; 4 us of work that takes 4 times as long, 1, 5 rounds for 2, and half of it 4 times.
    changed = on_sms(graph, 32)
    np.testing.assert_allclose(changed.durations_s * 1e6, [17.0, 5.0, 11.0, 11.0, 17.0, 0.5, 3.0])
    assert changed.sms.tolist() == [32, 32, 32, 32, 32, 32, 0]
    assert on_sms(graph, 32, recorded=64).durations_s[0] == pytest.approx(9e-6)
    measured = on_sms(graph, 32, latencies_s={"gemm_of_few": {32: 9e-6, 16: 1.0}, "add": {16: 1.0}})
    np.testing.assert_allclose(measured.durations_s * 1e6, [17.0, 9.0, 11.0, 11.0, 17.0, 0.5, 3.0])


def test_the_time_of_the_profiler_is_taken_from_the_host_alone(tmp_path: Path) -> None:
    """Five calls of 10 us, 2 us between them, each of which launches a kernel of 6 us, and a wait of 1 us."""
    tasks: list[dict[str, Any]] = []
    for i in range(5):
        tasks.append({"id": f"l{i}", "kind": "launch", "duration_s": 10e-6, "gap_s": 2e-6 if i else 0})
        tasks.append({"id": f"k{i}", "duration_s": 6e-6, "launched_by": f"l{i}", "launch_s": 5e-6})
    tasks.append({"id": "wait", "kind": "sync", "duration_s": 1e-6, "after": ["k4"]})
    graph = load(tmp_path, tasks)
    assert replay(graph).makespan_s == pytest.approx(60e-6)  # 4 x 12 + 5 + 6 + 1
    half = without_profiler(graph, 35.5e-6)  # 4 x 6 + 5 + 6 + 0.5
    np.testing.assert_allclose(
        half.durations_s, np.where(half.on_device, 6e-6, graph.durations_s / 2), rtol=1e-5
    )
    assert "host takes 0.50 of" in half.assumptions[-1]
    assert replay(half).makespan_s == pytest.approx(35.5e-6)
    device = without_profiler(graph, 20e-6)  # less than 5 + 5 x 6, which the host cannot help
    assert replay(device).makespan_s == pytest.approx(35e-6, rel=1e-4)
    np.testing.assert_array_equal(without_profiler(graph, 1.0).durations_s, graph.durations_s)
    assert plan(graph, "graphs", measured_s=35.5e-6).before.makespan_s == pytest.approx(35.5e-6)
    with pytest.raises(CostModelError, match="must be positive, but got 0 s"):
        without_profiler(graph, 0)


def test_half_precision_is_for_products_and_for_bytes(tmp_path: Path) -> None:
    tasks = [
        {"id": "sgemm", "duration_s": 29e-6},
        {"id": "add", "duration_s": 5e-6},
        {"id": "copy", "kind": "copy", "duration_s": 3e-6},
    ]
    graph = load(tmp_path, tasks)
    np.testing.assert_allclose(half_precision(graph).durations_s * 1e6, [3.0, 3.0, 3.0])
    (change,) = parse_what_if("half=0.5")
    changed = change(graph)
    np.testing.assert_allclose(changed.durations_s * 1e6, [15.0, 3.0, 3.0])
    assert "1 matrix products in half precision take 0.5" in changed.assumptions[0]


def test_launches_up_to_a_wait_become_one(tmp_path: Path) -> None:
    """Of 5 operators with tiny kernels and 5 behind a wait, the host has 2 launches and the wait to do."""
    machine = Machine()
    for _ in range(2):
        for _ in range(5):
            machine.operator("aten::add", "add_kernel", 2.0)
        machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = remove_launches(graph)
    assert int(changed.of_kind(TaskKind.LAUNCH).sum()) == 2
    assert changed.of_kind(TaskKind.KERNEL).sum() == 10
    assert "10 launches became 2" in changed.assumptions[0]
    assert names(changed).count("aten::add") == 4  # before the first and behind the last launch of each run
    # 3 us of the host, a launch's latency, five kernels of 2 us and gaps, 2 us after the wait, twice.
    assert replay(changed).makespan_s < 0.55 * replay(graph).makespan_s
    assert replay(changed).device_busy_s == pytest.approx(20e-6)


def test_a_graph_launched_by_the_machine_is_what_was_predicted(tmp_path: Path) -> None:
    eager, captured = Machine(), Machine()
    for _ in range(20):
        eager.operator("aten::add", "add_kernel", 2.0)
    eager.synchronize()
    captured.host("aten::add", 3.0)
    captured.graph([("add_kernel", 2.0)] * 20)
    captured.now += 2.0
    captured.synchronize()
    predicted = replay(remove_launches(read_kineto(eager.save(tmp_path / "trace.json")).graph))
    # No kernel of the eager trace follows another at once, so its gap, 0.75 us each, is not known.
    assert predicted.makespan_s == pytest.approx(captured.makespan_s - 19 * 0.75e-6, rel=0.03)
    assert "0.00 us pass between kernels" in predicted.graph.assumptions[-1]
    (change,) = parse_what_if("graphs=0.75e-6")
    told = replay(change(read_kineto(tmp_path / "trace.json").graph))
    assert told.makespan_s == pytest.approx(predicted.makespan_s + 19 * 0.75e-6)


def test_gaps_between_kernels_are_those_of_the_trace(tmp_path: Path) -> None:
    """Long kernels follow each other at once, which tells the gap that short ones will have."""
    eager, captured = Machine(), Machine()
    kernels = [("add_kernel", 30.0)] * 6 + [("add_kernel", 2.0)] * 30
    captured.host("aten::add", 3.0)
    captured.graph(kernels)
    captured.now += 2.0
    for kernel, duration in kernels:
        eager.operator("aten::add", kernel, duration)
    for machine in (eager, captured):
        machine.synchronize()
    predicted = replay(remove_launches(read_kineto(eager.save(tmp_path / "trace.json")).graph))
    assert predicted.makespan_s == pytest.approx(captured.makespan_s, rel=1e-3)


def test_a_run_of_launches_ends_where_the_host_needs_what_a_kernel_made(tmp_path: Path) -> None:
    tasks = [
        {"id": "call", "kind": "launch", "duration_s": 1e-6},
        {"id": "kernel", "duration_s": 5e-6, "launched_by": "call"},
        {"id": "decide", "kind": "host", "duration_s": 1e-6, "after": ["kernel"]},
        {"id": "call_again", "kind": "launch", "duration_s": 1e-6},
        {"id": "kernel_again", "duration_s": 5e-6, "launched_by": "call_again"},
    ]
    graph = load(tmp_path, tasks)
    changed = remove_launches(graph)
    assert names(changed) == names(graph)
    assert replay(changed).makespan_s == pytest.approx(replay(graph).makespan_s)


def test_elementwise_kernels_that_follow_each_other_become_one(tmp_path: Path) -> None:
    machine = Machine()
    for kernel, duration in (("mm", 20.0), ("elementwise_a", 3.0), ("elementwise_b", 5.0), ("mm", 20.0)):
        machine.operator(f"aten::{kernel}", kernel, duration)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = fuse(graph)
    kernels = np.flatnonzero(changed.on_device)
    assert [changed.name(i) for i in kernels] == ["mm", "elementwise_a", "mm"]
    np.testing.assert_allclose(changed.durations_s[kernels] * 1e6, [20.0, 5.0, 20.0])
    assert names(changed).count("cudaLaunchKernel") == 3
    assert "2 kernels became 1" in changed.assumptions[0]
    assert "1 launches went" in changed.assumptions[0]


def test_only_kernels_of_a_scope_become_one(tmp_path: Path) -> None:
    tasks = [
        {"id": "a", "name": "elementwise", "duration_s": 1e-6},
        {"id": "b", "name": "elementwise", "duration_s": 2e-6, "scope": "gelu"},
        {"id": "c", "name": "elementwise", "duration_s": 1e-6, "scope": "gelu"},
        {"id": "d", "name": "elementwise", "duration_s": 1e-6, "scope": "gelu_of_others"},
    ]
    changed = fuse(load(tmp_path, tasks), scope="gelu?")
    assert len(changed) == 4
    changed = fuse(load(tmp_path, tasks), "*", scope="[g]elu")
    np.testing.assert_allclose(changed.durations_s * 1e6, [1.0, 2.0, 1.0])


def test_a_kernel_that_something_else_waits_for_ends_a_chain(tmp_path: Path) -> None:
    tasks = [
        {"id": "a", "name": "elementwise", "duration_s": 1e-6},
        {"id": "b", "name": "elementwise", "duration_s": 1e-6, "after": ["a"]},
        {"id": "wait", "kind": "sync", "duration_s": 1e-6, "after": ["b"]},
        {"id": "c", "name": "elementwise", "duration_s": 1e-6, "launched_by": "wait"},
        {"id": "d", "name": "elementwise", "duration_s": 1e-6},
    ]
    changed = fuse(load(tmp_path, tasks))
    assert int(changed.on_device.sum()) == 2
    assert replay(changed).makespan_s == pytest.approx(2e-6)


def test_a_step_of_an_optimiser_becomes_one_kernel_and_one_launch(tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "mm", 30.0)
    step = machine.host("Optimizer.step#Adam.step", 0.0, "user_annotation")
    for _ in range(6):
        machine.operator("aten::mul_", "elementwise", 4.0)
    step["dur"] = machine.now - step["ts"]
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    changed = fused_optimizer(graph, factor=0.5)
    kernels = np.flatnonzero(changed.on_device)
    np.testing.assert_allclose(changed.durations_s[kernels] * 1e6, [30.0, 12.0])
    assert names(changed).count("cudaLaunchKernel") == 2
    assert fused_optimizer(graph, scope="no such scope").durations_s.tolist() == graph.durations_s.tolist()


def test_branches_run_at_once_on_two_streams(tmp_path: Path) -> None:
    graph = load(tmp_path, DIAMOND)
    assert replay(graph).makespan_s == pytest.approx(16e-6)
    assert replay(on_streams(graph, 2)).makespan_s == pytest.approx(10e-6)
    assert replay(on_streams(graph, 8)).makespan_s == pytest.approx(10e-6)
    assert replay(on_streams(graph, 1)).makespan_s == pytest.approx(16e-6)
    assert replay(on_streams(graph, 2, slowdown=1.5)).makespan_s == pytest.approx(15e-6)
    assert len(on_streams(graph, 8).resources) == 2


def test_the_order_of_a_trace_is_not_taken_for_what_kernels_need(tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "mm", 3.0)
    machine.operator("aten::mm", "mm", 3.0)
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    with pytest.raises(CostModelError, match="write it as JSON with `after`"):
        on_streams(graph, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_only_dependencies_that_others_imply_are_left_out(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    sources, targets = np.nonzero(np.triu(draw.random((n, n)) < 0.4, 1))
    whole = networkx.DiGraph()
    whole.add_nodes_from(range(n))
    whole.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    assert set(minimum_equivalent(n, sources, targets)) == set(networkx.transitive_reduction(whole).edges)


@st.composite
def graphs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Tasks of a thread and two streams; each may need any earlier ones."""
    kinds = st.sampled_from(["kernel", "kernel", "launch", "launch", "host", "sync"])
    tasks: list[dict[str, Any]] = []
    for i in range(draw(st.integers(2, 24))):
        kind = draw(kinds)
        task: dict[str, Any] = {
            "id": str(i),
            "kind": kind,
            "duration_s": draw(st.sampled_from([0.0, 1e-6, 3e-6])),
        }
        task["name"] = draw(st.sampled_from(["mm", "elementwise"]))
        task["scope"] = draw(st.sampled_from(["", "Optimizer.step#SGD.step"]))
        if kind == "kernel":
            task |= {"resource": draw(st.sampled_from(["stream 0", "stream 1"])), "gap_s": 1e-7, "sms": 8}
            launches = [each["id"] for each in tasks if each["kind"] == "launch"]
            if launches:
                task |= {"launched_by": draw(st.sampled_from(launches)), "launch_s": 2e-6}
        if tasks and draw(st.booleans()):
            earlier = st.sampled_from([each["id"] for each in tasks])
            task["after"] = draw(st.lists(earlier, min_size=1, max_size=2, unique=True))
        tasks.append(task)
    return tasks


def says_what_kernels_need(graph: KernelGraph) -> bool:
    edges, on_device = graph.dependencies, graph.on_device
    data = (edges.kinds == DependencyKind.DATA) & on_device[edges.sources] & on_device[edges.targets]
    return bool(data.any()) or on_device.sum() < 2


CHANGES = ["fuse", "fuse:mm", "graphs", "half", "optimizer=0.5", "sms=4", "streams=2"]


@settings(max_examples=100, deadline=None)
@given(graphs(), st.permutations(CHANGES))
def test_no_order_of_transforms_makes_a_circle(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[dict[str, Any]], changes: list[str]
) -> None:
    graph = load(tmp_path_factory.mktemp("graph"), tasks)
    total = graph.durations_s.sum() * 2 + 1
    for change in changes:
        if change.startswith("streams") and not says_what_kernels_need(graph):
            with pytest.raises(CostModelError, match="write it as JSON with `after`"):
                parse_what_if(change)[0](graph)
            continue
        changed = parse_what_if(change)[0](graph)
        assert networkx.is_directed_acyclic_graph(changed.to_networkx())
        assert len(changed.assumptions) > len(graph.assumptions)
        timeline = replay(changed)
        assert 0 <= timeline.makespan_s < total
        for resource in range(len(changed.resources)):
            on_it = changed.resource_ids == resource
            assert (timeline.starts_s[on_it][1:] >= timeline.ends_s[on_it][:-1] - 1e-12).all()
        graph = changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuze", "Did you mean 'fuse'"),
        ("scale:mm", "written scale:PATTERN=FACTOR, but got 'scale:mm'"),
        ("scale=2", "must name them"),
        ("graphs=few", "must be written graphs"),
        ("half:mm=2", "must be written half"),
        ("streams=two", "must be written streams=K"),
    ],
)
def test_a_what_if_that_is_written_wrongly_is_refused(trace: KernelGraph, text: str, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        [change(trace) for change in parse_what_if(text)]
