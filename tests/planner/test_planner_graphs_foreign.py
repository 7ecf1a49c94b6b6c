"""Traces of other devices, versions and tools, of several processes, and with damage in the middle."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from kineto_traces import Machine, span, two_streams

from costmodel import CostModelError
from costmodel.planner import KernelGraph, plan, replay
from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind
from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._fuse import remove_launches
from costmodel.planner.whatif._scale import on_sms

pytestmark = pytest.mark.white_box


def read(tmp_path: Path, events: list[dict[str, Any]], **fields: Any) -> RecordedGraph:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, **fields}))
    return read_kineto(path)


def kernels(graph: KernelGraph) -> int:
    return int(graph.of_kind(TaskKind.KERNEL).sum())


def launched(n: int = 6, *, runtime: str = "cuda_runtime", kernel: str = "kernel", **args: Any) -> list[Any]:
    """Kernels of 50 us, each launched by an operator."""
    events = []
    for i in range(n):
        at = 100.0 * i
        events.append(span("cpu_op", "aten::mm", at, 12))
        events.append(span(runtime, "urEnqueueKernelLaunch", at + 2, 5, correlation=i + 1))
        events.append(span(kernel, "gemm_kernel", at + 20, 50, tid=7, pid=0, correlation=i + 1, **args))
    return events


@pytest.mark.parametrize(
    ("runtime", "kernel", "args"),
    [
        ("xpu_runtime", "kernel", {"device": 0}),
        ("xpu_driver", "kernel", {"device": 0, "context": 3}),
        ("mtia_runtime", "mtia_ccp_events", {}),
        ("privateuse1_runtime", "kernel", {"device": 0, "stream": 2}),
        ("Runtime", "Kernel", {"device": 0, "stream": 7}),
        ("cuda_driver", "kernel", {"device": 0, "stream": 7}),
    ],
)
def test_categories_of_other_devices_and_versions_are_read(
    tmp_path: Path, runtime: str, kernel: str, args: dict[str, Any]
) -> None:
    recorded = read(tmp_path, launched(runtime=runtime, kernel=kernel, **args))
    assert kernels(recorded.graph) == 6
    assert (recorded.graph.dependencies.kinds == DependencyKind.LAUNCH).sum() == 6
    assert recorded.inspection.clean
    assert replay(recorded.graph).makespan_s == pytest.approx(570e-6)


def test_categories_that_nobody_knows_are_counted_and_said(tmp_path: Path) -> None:
    recorded = read(
        tmp_path, [*launched(2), *(span("npu_kernel", "x", 10.0 * i, 5, tid=9) for i in range(3))]
    )
    assert any(
        "3 events are left out" in each and "3 x npu_kernel" in each for each in recorded.inspection.unknown
    )


def test_cuda_graphs_need_kernels(tmp_path: Path) -> None:
    """Without kernels nobody knows what launches were for: the host's time must not vanish."""
    host = [each for each in launched(40, runtime="mtia_runtime") if each["cat"] != "kernel"]
    graph = read(tmp_path, host).graph
    changed = remove_launches(graph)
    assert replay(changed).makespan_s == pytest.approx(replay(graph).makespan_s) == pytest.approx(3912e-6)
    assert "none is known to launch a kernel" in changed.assumptions[-1]


@pytest.mark.parametrize("agent", [2, 9])
def test_gpus_that_are_numbered_otherwise_are_the_one_there_is(tmp_path: Path, agent: int) -> None:
    events = launched(device=agent, stream=1, grid=[608, 1, 1], block=[256, 1, 1])
    properties = [{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64}]
    graph = read(tmp_path, events, deviceProperties=properties).graph
    assert set(graph.sms[graph.on_device].tolist()) == {304}
    assert set(graph.block_warps[graph.on_device].tolist()) == {4}
    assert graph.device is not None
    assert (graph.device.name, graph.device.kind) == ("AMD Instinct MI300X", "hip")
    assert replay(on_sms(graph, 32)).device_busy_s > replay(graph).device_busy_s


def test_two_kinds_of_gpus_are_not_mixed_up(tmp_path: Path) -> None:
    properties = [{"id": 0, "name": "Tesla T4", "numSms": 40}, {"id": 1, "name": "NVIDIA L4", "numSms": 58}]
    graph = read(tmp_path, launched(device=2, stream=1), deviceProperties=properties).graph
    assert (set(graph.sms.tolist()), graph.device) == ({0}, None)
    with pytest.raises(CostModelError, match="sms:N=32"):
        on_sms(graph, 32)
    graph = read(tmp_path, launched(device=1, stream=1), deviceProperties=properties).graph
    assert graph.device is not None
    assert (graph.device.name, max(graph.sms)) == ("NVIDIA L4", 58)


@pytest.mark.parametrize("gpu", [None, 0])
@pytest.mark.parametrize("offset", [0, 2, 1000])
def test_ranks_in_one_file_are_told_apart_by_their_processes(
    tmp_path: Path, offset: float, gpu: int | None
) -> None:
    """Processes number correlations, devices and streams alike; a kernel may have the process or its GPU."""

    known = {"correlation": 1, "device": 0, "stream": 7}

    def of_rank(pid: int, at: float) -> list[dict[str, Any]]:
        return [
            span("cuda_runtime", "cudaLaunchKernel", at, 5, pid=pid, correlation=1),
            span("kernel", "gemm", at + 10, 100, tid=7, pid=pid if gpu is None else gpu, **known),
            span("cuda_runtime", "cudaDeviceSynchronize", at + 6, 106, pid=pid, correlation=2),
        ]

    recorded = read(tmp_path, of_rank(1, 0) + of_rank(2, offset))
    graph, edges = recorded.graph, recorded.graph.dependencies
    assert recorded.inspection.counts == {}
    assert graph.durations_s[graph.on_device] == pytest.approx([100e-6, 100e-6])
    launches = edges.where(edges.kinds == DependencyKind.LAUNCH)
    assert len(set(launches.sources.tolist())) == len(set(launches.targets.tolist())) == 2
    waits = edges.where(edges.kinds == DependencyKind.SYNC)
    process = [graph.resources[i].name.split()[1] for i in graph.resource_ids]
    assert [(process[s], process[t]) for s, t in zip(waits.sources, waits.targets, strict=True)] in (
        [("1", "1"), ("2", "2")],
        [("2", "2"), ("1", "1")],
    )


@pytest.mark.parametrize("position", [0, 1, 100, 199, 200])
@pytest.mark.parametrize("damage", ['{"device": "cpu"}(12): run', 'a"b', "\\q", "x\x00\ty\\"])
def test_an_event_that_cannot_be_read_takes_no_other_with_it(
    tmp_path: Path, position: int, damage: str
) -> None:
    events = [span("cpu_op", f"op {i}", 10.0 * i, 8) for i in range(201)]
    events[position]["name"] = "HERE"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "deviceProperties": []}).replace("HERE", damage))
    recorded = read_kineto(path)
    assert len(recorded.graph) in (200, 201)  # some decoders take the last for a name
    assert "truncated" not in recorded.inspection.counts or position == 200
    if len(recorded.graph) == 200 and position < 200:
        assert recorded.inspection.counts == {"unreadable_event": 1}
        assert f"after {position} events" in recorded.inspection.unknown[0]


def test_what_is_known_of_gpus_outlives_damage(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    properties = [{"id": 0, "name": "Tesla T4", "numSms": 40}]
    text = json.dumps({"traceEvents": launched(device=0, stream=7), "deviceProperties": properties})
    path.write_text(text.replace("aten::mm", 'aten::"mm', 1))
    graph = read_kineto(path).graph
    assert graph.device is not None
    assert (graph.device.name, kernels(graph)) == ("Tesla T4", 6)


@pytest.mark.parametrize(
    "change",
    [
        {"tid": [1, 2]},
        {"pid": {"a": 1}},
        {"tid": "\ud800"},
        {"ts": 1e300},
        {"dur": 1e300},
        {"ts": -5e9, "dur": 1e16},
        {"name": "\ud800 gemm"},
        {"args": {"device": 0, "stream": [3], "correlation": 10**400}},
        {"args": {"device": 0, "stream": 7, "grid": [2**70, 5, -1], "block": ["a", None]}},
        {"args": {"device": 0, "stream": 7, "registers per thread": -5, "shared memory": 1e300}},
    ],
)
def test_fields_of_any_type_are_no_crash(tmp_path: Path, change: dict[str, Any]) -> None:
    events = launched(device=0, stream=7)
    events[2] |= change
    events[0] |= {each: change[each] for each in ("tid", "pid") if each in change}
    properties = [{"id": 0, "numSms": 2**31, "warpSize": 0, "maxThreadsPerMultiprocessor": "many"}, 7]
    found = plan(read(tmp_path, events, deviceProperties=properties), "graphs")
    found.save_perfetto(tmp_path / "timeline.json")
    assert found.before.makespan_s > 0


def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(
        json.dumps({"traceEvents": launched()}).encode().replace(b"gemm_kernel", b"gemm\xff\xfe")
    )
    assert kernels(read_kineto(path).graph) == 6


def test_a_small_file_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b" " * 2**20)
    with pytest.raises(CostModelError, match="exhaust memory"):
        read_kineto(path)


def busy(events: list[dict[str, Any]], tmp_path: Path) -> float:
    return replay(read(tmp_path, events).graph).device_busy_s


@pytest.mark.parametrize("alike", [True, False])
def test_corrupt_durations_take_what_others_take(tmp_path: Path, alike: bool) -> None:
    def stream(corrupt: set[int], times: float) -> list[dict[str, Any]]:
        events = []
        for i in range(60):
            name = "gemm" if alike else f"kernel {i}"
            took = 20.0 * (times if i in corrupt else 1.0)
            events.append(span("cuda_runtime", "cudaLaunchKernel", 60.0 * i, 4, correlation=i + 1))
            known = {"correlation": i + 1, "device": 0, "stream": 7}
            events.append(span("kernel", name, 60.0 * i + 6, took, tid=7, pid=0, **known))
        return events

    whole = busy(stream(set(), 1), tmp_path)
    assert whole == pytest.approx(60 * 20e-6)
    assert busy(stream({3, 9, 14, 20, 26, 31, 38, 44, 50, 57}, 1e3), tmp_path) == pytest.approx(whole)
    last = read(tmp_path, stream({59}, 1e6))
    assert last.makespan_s == pytest.approx(read(tmp_path, stream(set(), 1)).makespan_s)
    assert last.inspection.counts == {"corrupt_duration": 1}


def test_a_kernel_that_is_long_by_its_nature_is_believed(tmp_path: Path) -> None:
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 0, 4, correlation=1),
        span("kernel", "gemm", 10, 5e6, tid=7, pid=0, correlation=1, device=0, stream=7),
    ]
    assert busy(events, tmp_path) == pytest.approx(5.0)


def test_arrows_that_end_at_calls_are_no_fault(tmp_path: Path) -> None:
    machine = two_streams(Machine())
    for i, event in enumerate([each for each in machine.events if each.get("cat") == "cuda_runtime"]):
        machine.events.append(
            {
                "ph": "f",
                "cat": "ac2g",
                "id": 90_000 + i,
                "name": "ac2g",
                **{key: event[key] for key in ("pid", "tid", "ts")},
            }
        )
    assert read_kineto(machine.save(tmp_path / "trace.json")).inspection.clean


@pytest.mark.parametrize("name", ["[a|b]", "step [1/3]", "what?*"])
def test_an_annotation_is_named_as_it_is_called(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace.json"
    events = [span("user_annotation", name, 95, 400), *launched(device=0, stream=7)]
    path.write_text(json.dumps({"traceEvents": events}))
    assert kernels(read_kineto(path, name).graph) == 4


def test_what_a_file_looks_like_is_said(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("id: 1\nnothing: here\n")
    with pytest.raises(CostModelError, match="has no event"):
        read_kineto(path)
