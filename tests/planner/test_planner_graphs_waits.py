"""Waiting is not work: who polls or synchronises holds nothing back; steps, and what they depend on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_traces import span

from costmodel import CostModelError
from costmodel.planner import replay
from costmodel.planner.graphs._kernel_graph import DependencyKind
from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.graphs._trace_tasks import Stream
from costmodel.planner.whatif._parse import parse_what_if
from costmodel.planner.whatif._scale import scale

pytestmark = pytest.mark.white_box


def read(tmp_path: Path, events: list[dict[str, Any]], within: str = "") -> RecordedGraph:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return read_kineto(path, within)


def one_kernel(duration: float = 1000.0) -> list[dict[str, Any]]:
    """A kernel that is launched and waited for."""
    return [
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        span("kernel", "gemm", 10, duration, tid=7, pid=0, correlation=1, device=0, stream=7),
        span("cuda_runtime", "cudaDeviceSynchronize", 6, 10 + duration, correlation=2),
    ]


@pytest.mark.parametrize("within", ["", "step"])
def test_threads_that_poll_hold_nothing_back(tmp_path: Path, within: str) -> None:
    events = [
        span("user_annotation", "step", 0, 1035),
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        span("kernel", "gemm", 10, 1000, tid=7, pid=0, correlation=1, device=0, stream=7),
        span("cuda_runtime", "cudaDeviceSynchronize", 6, 1010, correlation=2),
        *(span("cuda_runtime", "cudaEventQuery", at, 3, tid=2) for at in (1, 500, 1020)),
    ]
    recorded = read(tmp_path, events, within)
    faster = replay(scale(recorded.graph, "gemm", 0.1)).makespan_s
    assert recorded.makespan_s / faster == pytest.approx(1016 / 116, rel=1e-6)
    assert any("1 threads only wait" in each for each in recorded.inspection.unknown)


@pytest.mark.parametrize("after", [1.0, 400.0])
def test_who_asks_until_work_is_done_waits_for_it(tmp_path: Path, after: float) -> None:
    """On the thread that launched it, and that goes on then."""
    polls = [span("cuda_runtime", "cudaEventQuery", 100.0 * i + 11, 3, correlation=10 + i) for i in range(11)]
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        span("kernel", "gemm", 10, 1000, tid=7, pid=0, correlation=1, device=0, stream=7),
        *polls,
        span("cpu_op", "aten::add", 1014 + after, 20),
    ]
    recorded = read(tmp_path, events)
    faster = replay(scale(recorded.graph, "gemm", 0.1))
    assert replay(recorded.graph).makespan_s == pytest.approx(recorded.makespan_s)
    assert recorded.makespan_s - faster.makespan_s == pytest.approx(900e-6)


def test_a_few_questions_at_once_wait_for_nothing(tmp_path: Path) -> None:
    """As an allocator asks which memory is free again."""
    polls = [span("cuda_runtime", "cudaEventQuery", 3.0 * i + 1000, 2, correlation=10 + i) for i in range(5)]
    events = [
        span("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1),
        span("kernel", "gemm", 10, 995, tid=7, pid=0, correlation=1, device=0, stream=7),
        *polls,
        span("cpu_op", "aten::add", 1020, 20),
    ]
    graph = read(tmp_path, events).graph
    assert not (graph.dependencies.kinds == DependencyKind.SYNC).any()
    assert replay(scale(graph, "gemm", 0.1)).makespan_s == pytest.approx(1040e-6)


@pytest.mark.parametrize(
    "call",
    ["cudaEventSynchronize", "hipStreamSynchronize", "urQueueFinish", "cudaEventQuery", "urEventGetInfo"],
)
def test_threads_that_only_wait_hold_nothing_back(tmp_path: Path, call: str) -> None:
    """Not even by the times at which they begin to wait again, whatever else they look at."""
    watchdog = [
        event
        for at in (3, 400, 1017)
        for event in (
            span("cuda_runtime", "cudaGetDevice", at, 1, tid=2),
            span("cuda_runtime", call, at + 1, 2, tid=2, correlation=100 + at),
        )
    ]
    alone, beside = read(tmp_path, one_kernel()), read(tmp_path, [*one_kernel(), *watchdog])
    for graph in (alone.graph, beside.graph):
        assert replay(scale(graph, "gemm", 0.1)).makespan_s == pytest.approx(116e-6)


def test_who_asks_and_looks_at_other_things_meanwhile_waits_too(tmp_path: Path) -> None:
    polls = [
        event
        for i in range(11)
        for event in (
            span("cuda_runtime", "cudaStreamIsCapturing", 100.0 * i + 11, 1),
            span("cuda_runtime", "cudaEventQuery", 100.0 * i + 13, 3, correlation=10 + i),
        )
    ]
    events = [*one_kernel()[:2], *polls, span("cpu_op", "aten::add", 1020, 20)]
    graph = read(tmp_path, events).graph
    assert replay(scale(graph, "gemm", 0.1)).makespan_s == pytest.approx(140e-6)


def steps(*names: str) -> list[dict[str, Any]]:
    """Steps of one kernel each, with these names."""
    events = []
    for i, name in enumerate(names):
        at, known = 1000.0 * i, {"correlation": i + 1, "device": 0, "stream": 7}
        events += [
            span("user_annotation", name, at, 900),
            span("cuda_runtime", "cudaLaunchKernel", at + 10, 5, correlation=i + 1),
            span("kernel", f"gemm_{i}", at + 20, 100 * (i + 1), tid=7, pid=0, **known),
        ]
    return events


@pytest.mark.parametrize(
    ("within", "kernels"),
    [
        ("[pl][run] step, 1", ["gemm_0", "gemm_2"]),
        ("[pl][run] step, 1#2", ["gemm_2"]),
        ("[pl]*", ["gemm_0", "gemm_1", "gemm_2"]),
        ("[pl]*#2", ["gemm_1"]),
        ("[pl][run] step, ?", ["gemm_0", "gemm_1", "gemm_2"]),
        ("eval#2", ["gemm_3"]),
    ],
)
def test_a_step_is_named_as_it_is_written_or_by_its_number(
    tmp_path: Path, within: str, kernels: list[str]
) -> None:
    names = ("[pl][run] step, 1", "[pl][run] step, 2", "[pl][run] step, 1", "eval#2")
    graph = read(tmp_path, steps(*names), within).graph
    assert [name for name in graph.names if name.startswith("gemm")] == kernels


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("step#3", "behind # must be one of 1 to 2, .* 'step', but got '3'"),
        ("step#0", "behind # must be one of 1 to 2"),
        ("[s]tep", r"must have the name '\[s\]tep', but there are \['step'\]"),
        ("other#1", "must have the name 'other#1'"),
    ],
)
def test_a_step_that_is_not_there_is_refused(tmp_path: Path, within: str, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        read(tmp_path, steps("step", "step"), within)


def test_a_step_is_measured_by_what_depends_on_it(tmp_path: Path) -> None:
    """A loader works on beside it and launches nothing; a helper launches a kernel of the step."""
    events = [
        *steps("step"),
        span("cuda_runtime", "cudaDeviceSynchronize", 20, 230, correlation=8),
        *(span("cpu_op", "collate", at, 50, tid=3) for at in (40, 150)),
        span("cuda_runtime", "cudaLaunchKernel", 30, 5, tid=4, correlation=9),
        span("kernel", "backward", 200, 40, tid=7, pid=0, correlation=9, device=0, stream=7),
    ]
    recorded = read(tmp_path, events, "step")
    assert set(recorded.graph.names) >= {"gemm_0", "backward"}
    assert "collate" not in recorded.graph.names
    assert recorded.makespan_s == pytest.approx(250e-6)
    assert any("1 threads launch nothing" in each for each in recorded.inspection.unknown)


def test_commas_within_brackets_are_part_of_a_name(tmp_path: Path) -> None:
    events = one_kernel()
    events[1]["name"] = "void add<float, 4>(int, float)"
    graph = read(tmp_path, events).graph
    for transform in parse_what_if("scale:void add<float, 4>=0.5, scale:add=0.5"):
        graph = transform(graph)
    assert replay(graph).makespan_s == pytest.approx(266e-6)


@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    launches=st.data(),
    times=st.tuples(st.integers(-1, 40), st.integers(-1, 40)),
)
def test_the_last_task_that_had_ended_is_found(
    lengths: list[int], launches: st.DataObject, times: tuple[int, int]
) -> None:
    """As by walking back from the last that was launched."""
    ends = np.cumsum(lengths).astype(float)
    launched = np.sort([launches.draw(st.integers(-2, 38)) for _ in lengths]).astype(float)
    stream = Stream(None, 0, 7, [], 100, launched, ends)
    before = [i for i in range(len(ends)) if launched[i] < times[0]]
    walked = next((100 + i for i in reversed(before) if ends[i] <= times[1]), None)
    assert stream.last_ended(*map(float, times)) == walked
