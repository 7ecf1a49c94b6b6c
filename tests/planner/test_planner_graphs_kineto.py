"""Graphs of traces: what is read, and that their replay gives the recorded times."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from kineto_traces import Machine, two_streams

from costmodel.errors import CostModelError
from costmodel.planner import replay
from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind
from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._scale import scale

pytestmark = pytest.mark.white_box


def pairs(recorded: RecordedGraph, kind: DependencyKind) -> set[tuple[str, str]]:
    """Names of tasks of which the second waits for the first."""
    graph, edges = recorded.graph, recorded.graph.dependencies
    rows = np.flatnonzero(edges.kinds == kind)
    return {(graph.name(edges.sources[i]), graph.name(edges.targets[i])) for i in rows.tolist()}


def test_a_replay_gives_every_recorded_time(tmp_path: Path) -> None:
    machine = two_streams(Machine())
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert recorded.inspection.clean
    assert recorded.inspection.unknown == ()
    timeline = replay(recorded.graph)
    np.testing.assert_allclose(timeline.starts_s, recorded.starts_s, rtol=0, atol=1e-12)
    assert timeline.makespan_s == pytest.approx(machine.makespan_s, rel=1e-9)


@pytest.mark.parametrize(
    ("part", "factor"), [("sgemm", 0.1), ("sgemm", 0.5), ("sgemm", 3.0), ("conv", 4.0), ("elementwise", 8.0)]
)
def test_a_change_has_the_effect_that_it_has_on_the_machine(tmp_path: Path, part: str, factor: float) -> None:
    recorded = read_kineto(two_streams(Machine()).save(tmp_path / "trace.json"))
    changed = replay(scale(recorded.graph, part, factor))
    assert changed.makespan_s == pytest.approx(two_streams(Machine({part: factor})).makespan_s, rel=0.01)
    assert changed.makespan_s != pytest.approx(recorded.makespan_s, rel=0.01)


def test_tasks_are_calls_without_what_they_call(tmp_path: Path) -> None:
    machine = Machine()
    machine.operator("aten::mm", "sgemm", 20.0)
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    names = [graph.name(task) for task in range(len(graph))]
    assert names == ["aten::mm", "cudaLaunchKernel", "sgemm", "aten::mm"]
    assert graph.kinds.tolist() == [TaskKind.HOST, TaskKind.LAUNCH, TaskKind.KERNEL, TaskKind.HOST]
    np.testing.assert_allclose(graph.durations_s * 1e6, [3.0, 5.25, 20.0, 2.0])
    assert [each.name for each in graph.resources] == ["process 7 thread 7", "GPU 0 stream 7"]


def test_what_waits_for_what(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("first", 30.0)
    machine.wait_event(13, machine.record(7))
    machine.launch("second", 10.0, stream=13)
    machine.synchronize("cudaStreamSynchronize", 13)
    machine.graph([("node_a", 4.0), ("node_b", 4.0)])
    machine.copy_and_wait(5.0)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert pairs(recorded, DependencyKind.EVENT) == {("first", "second")}
    assert pairs(recorded, DependencyKind.SYNC) == {
        ("second", "cudaStreamSynchronize"),
        ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync"),
    }
    assert pairs(recorded, DependencyKind.LAUNCH) == {
        ("cudaLaunchKernel", "first"),
        ("cudaLaunchKernel", "second"),
        ("cudaGraphLaunch", "node_a"),
        ("cudaGraphLaunch", "node_b"),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)"),
    }
    assert ("first", "node_a") in pairs(recorded, DependencyKind.ORDER)


def test_what_the_trace_does_not_say_is_said(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("first", 30.0)
    machine.wait_event(13, machine.record(7))
    machine.launch("second", 10.0, stream=13)
    machine.synchronize("cudaStreamSynchronize", 13)
    machine.events = [each for each in machine.events if each["cat"] != "cuda_sync"]
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert recorded.inspection.clean
    assert ["1 waits of streams" in each for each in recorded.inspection.unknown] == [True, False, False]
    assert "1 synchronising calls" in recorded.inspection.unknown[1]
    assert pairs(recorded, DependencyKind.SYNC) == {
        ("first", "cudaStreamSynchronize"),
        ("second", "cudaStreamSynchronize"),
    }
    assert replay(recorded.graph).makespan_s == pytest.approx(recorded.makespan_s)


def test_an_annotation_is_the_scope_of_kernels_that_are_launched_in_it(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("before", 3.0)
    step = machine.host("Optimizer.step#Adam.step", 0.0, "user_annotation")
    machine.operator("aten::_foreach_add_", "multi_tensor_apply", 3.0)
    step["dur"] = machine.now - step["ts"]
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    scopes = {graph.name(task): graph.scopes[graph.scope_ids[task]] for task in range(len(graph))}
    assert scopes["before"] == ""
    assert scopes["multi_tensor_apply"] == scopes["aten::_foreach_add_"] == "Optimizer.step#Adam.step"


def test_threads_wait_for_each_other_in_a_backward_pass(tmp_path: Path) -> None:
    """The forward thread idles for 52 us while another does 50 us of backward operators."""
    machine = Machine()
    forward = [machine.host("aten::mm", 20.0), machine.host("aten::relu", 5.0)]
    machine.now += 2.0
    backward = [machine.host("ReluBackward0", 10.0), machine.host("MmBackward0", 40.0)]
    machine.host("aten::add_", 4.0)
    for number, (source, target) in enumerate(zip(forward, reversed(backward), strict=True)):
        target["tid"] = 8
        for phase, end in (("s", source), ("f", target)):
            arrow = {"ph": phase, "id": number, "cat": "fwdbwd", "name": "fwdbwd", "bp": "e"}
            machine.events.append({**arrow, "pid": 7, "tid": end["tid"], "ts": end["ts"]})
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert pairs(recorded, DependencyKind.DATA) == {
        ("aten::mm", "MmBackward0"),
        ("aten::relu", "ReluBackward0"),
        ("MmBackward0", "aten::add_"),
    }
    timeline = replay(recorded.graph)
    assert timeline.makespan_s == pytest.approx(81e-6)
    durations = np.where(
        [recorded.graph.name(i) == "MmBackward0" for i in range(5)], 1e-6, timeline.graph.durations_s
    )
    assert replay(recorded.graph.assuming(durations_s=durations)).makespan_s == pytest.approx(42e-6)


def test_a_step_of_several_is_read_with_the_host_time_around_its_calls(tmp_path: Path) -> None:
    """Left out is what others launched, also where it runs during this step, and the annotation's end."""
    machine = Machine()
    machine.launch("before", 50.0)
    machine.launch("before_and_within", 20.0)
    for step in range(2):
        began = machine.now
        annotation = machine.host(f"ProfilerStep#{step}", 0.0, "user_annotation")
        machine.now += 7.0
        machine.operator("aten::mm", f"gemm_{step}", 30.0)
        machine.synchronize()
        machine.now += 3.0
        annotation["dur"] = machine.now - began
    machine.now += 400.0
    machine.synchronize()
    path = machine.save(tmp_path / "trace.json")
    recorded = read_kineto(path, within="ProfilerStep#0")
    graph = recorded.graph
    assert [graph.name(i) for i in np.flatnonzero(graph.on_device)] == ["gemm_0"]
    assert recorded.makespan_s == pytest.approx(annotation_s(machine, "ProfilerStep#0") - 3e-6)
    assert replay(graph).makespan_s == pytest.approx(recorded.makespan_s)
    both = read_kineto(path, within="ProfilerStep*")
    assert int(both.graph.on_device.sum()) == 2
    assert both.makespan_s < read_kineto(path).makespan_s - 400e-6
    with pytest.raises(CostModelError, match=r"'step', but there are \['ProfilerStep#0', 'ProfilerStep#1'\]"):
        read_kineto(path, within="step")


def annotation_s(machine: Machine, name: str) -> float:
    return next(each["dur"] for each in machine.events if each["name"] == name) * 1e-6


def test_grids_and_the_sms_of_the_device_are_read(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("first", 3.0)
    machine.launch("second", 3.0)
    machine.copy_and_wait(2.0)
    kernels = [each for each in machine.events if each["cat"] == "kernel"]
    kernels[0]["args"]["grid"] = [6, 4, 2]
    kernels[1]["args"]["grid"] = ["x", None, 1]
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": devices, "traceEvents": machine.events}))
    graph = read_kineto(path).graph
    on_device = np.flatnonzero(graph.on_device)
    assert graph.blocks[on_device].tolist() == [48, 0, 0]
    assert graph.sms[on_device].tolist() == [132, 132, 0]
    assert not graph.sms[~graph.on_device].any()


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "warps", "at_once"),
    [
        (128, 16, 0, 4, 16),  # threads of an SM: 2048
        (128, 218, 19_200, 4, 2),  # registers: 224 x 128 of 65,536
        (64, 60, 20_000, 2, 11),  # shared memory: 21,024 of 233,472 bytes
        (32, 16, 0, 1, 32),  # blocks
        (100, 16, 0, 4, 16),  # whole warps
        (384, 168, 231_424, 12, 1),
    ],
)
def test_what_an_sm_holds_at_once_is_told_by_what_is_scarcest(
    tmp_path: Path, *, threads: int, registers: int, shared_bytes: int, warps: int, at_once: int
) -> None:
    machine = Machine()
    machine.launch("gemm", 3.0)
    kernel = next(each for each in machine.events if each["cat"] == "kernel")
    kernel["args"] |= {"grid": [132, 1, 1], "block": [threads, 1, 1], "registers per thread": registers}
    kernel["args"] |= {"shared memory": shared_bytes}
    device = {"id": 0, "numSms": 132, "maxThreadsPerMultiprocessor": 2048, "warpSize": 32}
    device |= {"regsPerMultiprocessor": 65_536, "sharedMemPerMultiprocessor": 233_472}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": machine.events}))
    graph = read_kineto(path).graph
    (task,) = np.flatnonzero(graph.on_device)
    assert (graph.blocks[task], graph.block_warps[task], graph.sm_blocks[task]) == (132, warps, at_once)
    assert not graph.sm_blocks[~graph.on_device].any()


def test_kernels_of_a_cuda_graph_wait_for_its_launch_no_longer_than_the_first(tmp_path: Path) -> None:
    """If kernels are half as long, all but the launch is half as long."""
    machine = Machine()
    machine.graph([("gemm", 20.0)] * 50)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    faster = scale(graph, "gemm", 0.5)
    assert replay(graph).makespan_s - replay(faster).makespan_s == pytest.approx(50 * 10e-6)


def test_a_copy_between_gpus_runs_on_the_one_that_it_says(tmp_path: Path) -> None:
    """Kineto writes ``inDevice`` for such copies, and no ``device``."""
    machine = Machine()
    machine.launch("Memcpy PtoP (Device -> Device)", 5.0, cat="gpu_memcpy")
    args = next(each for each in machine.events if each["cat"] == "gpu_memcpy")["args"]
    args |= {"fromDevice": 0, "toDevice": 1, "inDevice": 1}
    del args["device"]
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert recorded.inspection.clean
    assert recorded.graph.resources[1].name == "GPU 1 stream 7"


def test_the_drivers_call_within_the_runtimes_may_share_its_correlation(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch("gemm", 5.0)
    outer = next(each for each in machine.events if each["name"] == "cudaLaunchKernel")
    inner = {**outer, "cat": "cuda_driver", "name": "cuLaunchKernel", "ts": outer["ts"] + 1, "dur": 2.0}
    machine.events.append(inner)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert recorded.inspection.clean
    assert pairs(recorded, DependencyKind.LAUNCH) == {("cuLaunchKernel", "gemm")}
    inner["ts"] += 100.0
    counts = read_kineto(machine.save(tmp_path / "trace.json")).inspection.counts
    assert counts == {"duplicate_correlation": 1}


def test_an_event_that_was_recorded_before_the_trace_is_not_known(tmp_path: Path) -> None:
    """The host then waits for all that was done, and the stream for nothing; both are said."""
    machine = Machine()
    machine.launch("first", 30.0)
    record = machine.record(7)
    machine.wait_event(13, record)
    machine.launch("second", 10.0, stream=13)
    machine.synchronize("cudaEventSynchronize", 13)
    machine.events = [each for each in machine.events if each["name"] != "cudaEventRecord"]
    machine.events[-1]["args"]["stream"] = -1  # as of waits for events
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert pairs(recorded, DependencyKind.EVENT) == {("first", "second")}
    assert {source for source, _ in pairs(recorded, DependencyKind.SYNC)} == {"first", "second"}
    assert ["recorded before it" in each for each in recorded.inspection.unknown] == [True, False, False]
    assert "1 synchronising calls" in recorded.inspection.unknown[1]


def test_waits_of_streams_are_guessed_where_the_trace_does_not_tell_for_which(tmp_path: Path) -> None:
    told = two_streams(Machine())
    known = read_kineto(told.save(tmp_path / "told.json"))
    told.events = [each for each in told.events if each.get("cat") != "cuda_sync"]
    guessed = read_kineto(told.save(tmp_path / "untold.json"))
    assert pairs(guessed, DependencyKind.EVENT) == pairs(known, DependencyKind.EVENT)
    assert any("are guessed" in each for each in guessed.inspection.unknown)


def test_streams_far_behind_the_host_tell_nothing_of_launches(tmp_path: Path) -> None:
    """All launches are queued for longer than any takes to have an effect, which says nothing of them."""
    machine = Machine()
    machine.launch("long", 5000.0)
    for _ in range(40):
        machine.launch("short", 100.0)
    machine.synchronize()
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    durations_s = graph.durations_s.copy()
    durations_s[graph.on_device] *= 0.1
    change = replay(graph).makespan_s - replay(graph.assuming(durations_s=durations_s)).makespan_s
    assert change == pytest.approx(0.9 * graph.durations_s[graph.on_device].sum(), rel=0.02)


@pytest.mark.parametrize("bare", [False, True])
def test_gzip_and_a_bare_list_of_events_are_read_alike(tmp_path: Path, bare: bool) -> None:
    machine = two_streams(Machine(), layers=2)
    plain = read_kineto(machine.save(tmp_path / "trace.json"))
    content = machine.events if bare else {"traceEvents": machine.events}
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(content).encode()))
    again = read_kineto(packed)
    assert again.inspection == plain.inspection
    np.testing.assert_array_equal(again.starts_s, plain.starts_s)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "must hold a list traceEvents"),
        (b'{"traceEvents": [{"ph": "M"}]}', "must hold calls of the host"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(CostModelError, match=message):
        read_kineto(path)
    with pytest.raises(CostModelError, match=r"Cannot read .*none.json"):
        read_kineto(tmp_path / "none.json")


@pytest.mark.torch
@pytest.mark.skipif("torch" in sys.modules and sys.modules["torch"] is None, reason="no torch")
def test_a_recorded_training_step_on_the_cpu_is_replayed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    optimizer = torch.optim.Adam(model.parameters())
    path = tmp_path / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
    profile.export_chrome_trace(str(path))
    recorded = read_kineto(path)
    assert recorded.inspection.clean
    assert len(recorded.graph) > 500
    assert "Optimizer.step#Adam.step" in recorded.graph.scopes
    assert replay(recorded.graph).makespan_s == pytest.approx(recorded.makespan_s, rel=0.02)
