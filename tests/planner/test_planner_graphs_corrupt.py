"""Traces that something is wrong with: it is counted, and nothing of it is believed."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto_traces import Machine

from costmodel.errors import CostModelError
from costmodel.planner import replay
from costmodel.planner.graphs._recorded_graph import RULES, RecordedGraph
from costmodel.planner.graphs._trace import read_kineto

pytestmark = pytest.mark.white_box

Event = dict[str, Any]


def whole_trace() -> Machine:
    """Eight kernels on a stream, each of 40 us, one on another that waits, a graph and a wait for all."""
    machine = Machine()
    for layer in range(8):
        machine.operator("aten::mm", f"kernel_{layer}", 40.0)
    machine.wait_event(13, machine.record(7))
    machine.operator("aten::conv2d", "branch", 20.0, stream=13)
    machine.wait_event(7, machine.record(13))
    machine.operator("aten::add", "joined", 10.0)
    machine.graph([("node", 5.0), ("node", 5.0)])
    machine.synchronize()
    return machine


def find(machine: Machine, name: str) -> list[Event]:
    return [each for each in machine.events if each.get("name") == name and each["ph"] == "X"]


def kernel(machine: Machine, layer: int) -> Event:
    return find(machine, f"kernel_{layer}")[0]


def without(machine: Machine, *events: Event) -> None:
    machine.events = [each for each in machine.events if not any(each is other for other in events)]


def outlasts(machine: Machine) -> None:
    kernel(machine, 2)["dur"] = 55.0


def inside(machine: Machine) -> None:
    kernel(machine, 2)["dur"] = 90.0  # kernel_3 lies within it, kernel_4 starts after its end


def negative(machine: Machine) -> None:
    kernel(machine, 2)["dur"] = -40.0


def not_a_number(machine: Machine) -> None:
    kernel(machine, 2)["dur"] = float("nan")
    kernel(machine, 3)["ts"] = "soon"


def no_name_no_stream(machine: Machine) -> None:
    del kernel(machine, 2)["name"]
    del kernel(machine, 3)["args"]["stream"]


def dangling(machine: Machine) -> None:
    kernel(machine, 2)["args"]["correlation"] = 99


def launch_lost(machine: Machine) -> None:
    without(machine, find(machine, "cudaLaunchKernel")[2])


def kernel_lost(machine: Machine) -> None:
    without(machine, kernel(machine, 2), kernel(machine, 3))


def graph_launch_lost(machine: Machine) -> None:
    without(machine, *find(machine, "cudaGraphLaunch"))


def calls_alike(machine: Machine) -> None:
    calls = find(machine, "cudaLaunchKernel")
    calls[3]["args"]["correlation"] = calls[2]["args"]["correlation"]


def kernels_alike(machine: Machine) -> None:
    kernel(machine, 3)["args"]["correlation"] = kernel(machine, 2)["args"]["correlation"]


def circle(machine: Machine) -> None:
    """The branch waits for a record that was made after what waits for the branch was launched."""
    late = machine.record(7)
    waits = find(machine, "Stream Wait Event")
    waits[0]["args"]["wait_on_cuda_event_record_corr_id"] = late


def clock(machine: Machine) -> None:
    """All that begins after the fourth operator is an hour later."""
    since = find(machine, "aten::mm")[4]["ts"]
    without(machine, *find(machine, "cudaDeviceSynchronize"))
    kept = [each for each in machine.events if each["ts"] >= since or each["ts"] + each.get("dur", 0) < since]
    machine.events = [each for each in kept if not each["name"].startswith("kernel_") or each["ts"] > since]
    for each in machine.events:
        each["ts"] += 3.6e9 if each["ts"] >= since else 0.0


def device_clock(machine: Machine) -> None:
    """The clock of the device is 30 us behind that of the host."""
    for each in machine.events:
        if each.get("pid") == 0:
            each["ts"] -= 30.0


def crossing(machine: Machine) -> None:
    find(machine, "cudaLaunchKernel")[2]["dur"] = 8.0


def too_short(machine: Machine) -> None:
    find(machine, "cudaDeviceSynchronize")[0]["dur"] = 3.0


def arrow_from_nowhere(machine: Machine) -> None:
    arrows = [each for each in machine.events if each["ph"] == "s"]
    without(machine, arrows[2], arrows[3])


PLANTED: dict[str, tuple[Callable[[Machine], None], dict[str, int]]] = {
    "outlasts its successor's start": (outlasts, {"outlasts_successor": 1}),
    "lies within another": (inside, {"runs_inside_another": 1}),
    "negative duration": (negative, {"negative_duration": 1, "missing_kernel": 1}),
    "NaN, and a start that is text": (not_a_number, {"unreadable_time": 2, "missing_kernel": 2}),
    "no name, no stream": (no_name_no_stream, {"malformed": 1, "missing_kernel": 1}),
    "dangling correlation": (dangling, {"missing_launch": 1, "missing_kernel": 1}),
    "launch lost": (launch_lost, {"missing_launch": 1}),
    "kernels lost": (kernel_lost, {"missing_kernel": 2}),
    "graph without its launch": (graph_launch_lost, {"graph_without_launch": 2}),
    "calls share a correlation": (
        calls_alike,
        {"duplicate_correlation": 1, "missing_launch": 1},
    ),
    "kernels share a correlation": (kernels_alike, {"duplicate_correlation": 1, "missing_kernel": 1}),
    "waits in a circle": (circle, {"waits_in_circles": 2}),
    "clock jumps": (clock, {"clock_jump": 1, "missing_kernel": 1}),
    "clock of the device is late": (device_clock, {"starts_before_launch": 1}),
    "call outlasts its caller": (crossing, {"crosses_on_thread": 1}),
    "wait too short": (too_short, {"waited_too_short": 2}),
    "arrow from nowhere": (arrow_from_nowhere, {"dangling_flow": 2}),
}


def check(recorded: RecordedGraph) -> None:
    """What is left makes sense: it has an order, finite times, and streams that run one task at a time."""
    timeline = replay(recorded.graph)
    assert np.isfinite(timeline.ends_s).all()
    for resource in range(len(recorded.graph.resources)):
        tasks = recorded.graph.resource_ids == resource
        assert (timeline.starts_s[tasks][1:] >= timeline.ends_s[tasks][:-1] - 1e-12).all()


def test_nothing_is_found_in_a_whole_trace(tmp_path: Path) -> None:
    assert read_kineto(whole_trace().save(tmp_path / "trace.json")).inspection.counts == {}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_counted_and_not_believed(tmp_path: Path, what: str) -> None:
    machine, (plant, counts) = whole_trace(), PLANTED[what]
    plant(machine)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert recorded.inspection.counts == counts
    said = recorded.inspection.sentences()
    assert all(f"{n} x {name.replace('_', ' ')}: {RULES[name]}." in said for name, n in counts.items())
    check(recorded)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, packed: bool) -> None:
    whole = json.dumps({"traceEvents": whole_trace().events}).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(whole)[:-200] if packed else whole[: len(whole) // 2])
    recorded = read_kineto(path)
    assert recorded.inspection.counts["truncated"] == 1
    assert len(recorded.graph) > 10
    check(recorded)


def test_a_rank_is_known_of_a_file_that_is_read_event_by_event(tmp_path: Path) -> None:
    whole = {"distributedInfo": {"backend": "nccl", "rank": 3}, "traceEvents": whole_trace().events}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(whole)[:-200])
    assert read_kineto(path).rank == 3


def test_an_archive_of_traces_is_not_read_as_its_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "traces.json", "w") as archive:
        archive.writestr("rank0.json", json.dumps({"traceEvents": whole_trace().events}))
    with pytest.raises(CostModelError, match="is a ZIP archive"):
        read_kineto(tmp_path / "traces.json")


def test_why_nothing_is_left_of_a_trace_is_said(tmp_path: Path) -> None:
    machine = whole_trace()
    for event in machine.events:
        event["dur"] = 1e300
    with pytest.raises(CostModelError, match=r"has none: .* x unreadable time"):
        read_kineto(machine.save(tmp_path / "trace.json"))


def test_a_negative_or_missing_duration_is_not_taken_for_a_task(tmp_path: Path) -> None:
    machine = whole_trace()
    negative(machine)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert "kernel_2" not in recorded.graph.names


def test_a_duration_is_cut_where_the_next_task_of_its_stream_starts(tmp_path: Path) -> None:
    machine = whole_trace()
    starts = kernel(machine, 2)["ts"], kernel(machine, 3)["ts"]
    outlasts(machine)
    graph = read_kineto(machine.save(tmp_path / "trace.json")).graph
    duration_s = graph.durations_s[graph.name_ids == graph.names.index("kernel_2")]
    assert duration_s == pytest.approx((starts[1] - starts[0]) * 1e-6)


def test_a_jump_of_the_clock_is_not_part_of_the_makespan(tmp_path: Path) -> None:
    machine = whole_trace()
    clock(machine)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    assert replay(recorded.graph).makespan_s < 1e-3


def test_a_kernel_before_its_launch_is_replayed_after_it(tmp_path: Path) -> None:
    machine = whole_trace()
    device_clock(machine)
    recorded = read_kineto(machine.save(tmp_path / "trace.json"))
    timeline = replay(recorded.graph)
    place = recorded.graph.name_ids.tolist().index(recorded.graph.names.index("kernel_0"))
    launch = recorded.graph.name_ids.tolist().index(recorded.graph.names.index("cudaLaunchKernel"))
    assert recorded.starts_s[place] < recorded.starts_s[launch] <= timeline.starts_s[place]


def test_rounding_to_microseconds_is_no_corruption(tmp_path: Path) -> None:
    machine = whole_trace()
    for each in machine.events:
        end = round(each["ts"] + each.get("dur", 0.0))
        each["ts"] = round(each["ts"])
        if "dur" in each:
            each["dur"] = end - each["ts"]
    assert read_kineto(machine.save(tmp_path / "trace.json")).inspection.clean
