"""Several ranks as one graph: traces of a simulated group, whose collectives wait for who arrives last."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from kineto_traces import KERNEL_GAP, LAUNCH_LATENCY, Machine
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.errors import CostModelError
from costmodel.planner import plan
from costmodel.planner._ranks import read_ranks

pytestmark = pytest.mark.white_box

COMPUTE, COMM = 7, 20
MOVING_US = 40.0
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _write_ranks(
    folder: Path,
    layers_us: Sequence[Sequence[float]],
    *,
    moving_us: float = MOVING_US,
    clocks_us: Sequence[float] = (),
    told: bool = True,
) -> float:
    """Write a trace of each rank; return the makespan of the whole group, in seconds.

    Args:
        folder: Where to.
        layers_us: What each rank computes before each collective.
        moving_us: What a collective takes once all have arrived.
        clocks_us: By how much the clock of each rank is ahead.
        told: Whether traces tell ranks and groups.
    """
    machines = [Machine() for _ in layers_us]
    ends = []
    for layer in range(len(layers_us[0])):
        calls = []
        for machine, layers in zip(machines, layers_us, strict=True):
            machine.operator("aten::mm", "sgemm_128x64", layers[layer], COMPUTE)
            machine.wait_event(COMM, machine.record(COMPUTE))
            correlation, called = 5000 + layer, machine.now
            machine.host("cudaLaunchKernelExC", 5.0, "cuda_runtime", correlation=correlation)
            free = machine.free.get(COMM, 0.0) + KERNEL_GAP
            arrived = max(called + LAUNCH_LATENCY, free, machine._must_wait.pop(COMM, 0.0))
            calls.append((correlation, arrived))
        end = max(arrived for _, arrived in calls) + moving_us
        for machine, (correlation, arrived) in zip(machines, calls, strict=True):
            args = {"device": 0, "stream": COMM, "correlation": correlation}
            if told:
                args |= {"Collective name": "allreduce", "Process Group Name": "0"}
            event = {"ph": "X", "cat": "kernel", "name": ALL_REDUCE, "pid": 0, "tid": COMM}
            machine.events.append({**event, "ts": arrived, "dur": end - arrived, "args": args})
            machine.free[COMM] = end
    for rank, machine in enumerate(machines):
        machine.synchronize()
        ends.append(machine.now)
        shift = clocks_us[rank] if clocks_us else 0.0
        events = [{**event, "ts": event["ts"] + shift} for event in machine.events]
        content = {"traceEvents": events} | ({"distributedInfo": {"rank": rank}} if told else {})
        (folder / f"rank{rank}.json").write_text(json.dumps(content))
    return (max(ends) - 100.0) * 1e-6


EVEN = [[50.0, 80.0, 20.0, 60.0], [50.0, 80.0, 20.0, 60.0]]
LATE = [[50.0, 80.0, 20.0, 60.0], [50.0, 380.0, 20.0, 60.0], [90.0, 80.0, 70.0, 60.0]]


@pytest.mark.parametrize("layers", [EVEN, LATE], ids=["even", "one late"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_the_replay_takes_what_the_group_took(tmp_path: Path, layers: list[list[float]], told: bool) -> None:
    makespan_s = _write_ranks(tmp_path, layers, told=told)
    found = plan(tmp_path)
    assert found.before.makespan_s == pytest.approx(makespan_s, rel=0.01)
    assert found.recorded_s == pytest.approx(makespan_s, rel=0.01)
    assert len(found.ranks) == len(layers)


def test_clocks_of_ranks_are_aligned_by_their_collectives(tmp_path: Path) -> None:
    makespan_s = _write_ranks(tmp_path, LATE, clocks_us=[0.0, 5e7, -3e3])
    assert plan(tmp_path).before.makespan_s == pytest.approx(makespan_s, rel=0.01)


def test_who_arrives_late_is_told_and_others_wait(tmp_path: Path) -> None:
    _write_ranks(tmp_path, LATE)
    table = plan(tmp_path).ranks.set_index("rank")
    assert 1e6 * table["collective_s"].to_numpy() == pytest.approx(4 * MOVING_US)
    assert 1e6 * table["compute_s"].to_numpy() == pytest.approx([210.0, 510.0, 300.0])
    assert table["last_share"].idxmax() == 1
    assert table["waited_s"].idxmin() == 1
    assert 1e6 * table.loc[0, "waited_s"] == pytest.approx(300.0, abs=60.0)
    path = plan(tmp_path).critical_path.by_name()
    assert path.groupby("rank")["seconds"].sum().idxmax() == 1
    assert path["seconds"].sum() == pytest.approx(plan(tmp_path).before.makespan_s)
    assert (table["exposed_s"] <= table["collective_s"] + table["waited_s"] + 1e-12).all()


def test_the_late_rank_made_faster_speeds_up_the_group(tmp_path: Path) -> None:
    """A what-if of one rank gives what a group takes whose ranks are as fast."""
    (tmp_path / "late").mkdir()
    (tmp_path / "even").mkdir()
    _write_ranks(tmp_path / "late", LATE)
    even = [LATE[0], LATE[0], LATE[2]]
    truth_s = _write_ranks(tmp_path / "even", even)
    graph = read_ranks(tmp_path / "late").graph
    slow = np.argmax(graph.durations_s * graph.on_device)
    assert "rank 1" in graph.resources[graph.resource_ids[slow]].name
    durations_s = graph.durations_s.copy()
    durations_s[slow] = 80e-6
    changed = plan(graph.assuming(durations_s=durations_s))
    assert changed.before.makespan_s == pytest.approx(truth_s, rel=0.02)


def test_slower_links_slow_what_moves_data_and_not_the_waits(tmp_path: Path) -> None:
    (tmp_path / "now").mkdir()
    (tmp_path / "slow").mkdir()
    _write_ranks(tmp_path / "now", LATE)
    truth_s = _write_ranks(tmp_path / "slow", LATE, moving_us=3 * MOVING_US)
    found = plan(tmp_path / "now", "scale:nccl=3")
    assert found.after.makespan_s == pytest.approx(truth_s, rel=0.02)


def test_fewer_sms_slow_all_but_what_moves_data(tmp_path: Path) -> None:
    _write_ranks(tmp_path, LATE)
    table = plan(tmp_path, "sms:132=66").ranks
    assert 1e6 * table["collective_s"].to_numpy() == pytest.approx(4 * MOVING_US)
    assert (table["compute_s"] > plan(tmp_path).ranks["compute_s"]).all()


def test_another_gpu_says_that_it_knows_no_links(tmp_path: Path) -> None:
    _write_ranks(tmp_path, LATE)
    said = [each for each in plan(tmp_path, "device:H100 SXM=H200").assumptions if "links" in each]
    assert said == ["12 collectives go with memory and clock, as links are not known: scale them too."]


def test_what_is_found_in_every_rank_is_said_once(tmp_path: Path) -> None:
    _write_ranks(tmp_path, LATE)
    damaged = [tmp_path / f"rank{rank}.json" for rank in range(3)]
    for file in damaged:
        content = json.loads(file.read_text())
        content["traceEvents"].append({"ph": "X", "cat": "of_no_kind", "name": "x", "ts": 1.0, "dur": 1.0})
        file.write_text(json.dumps(content))
    said = [each for each in plan(tmp_path).inspection.unknown if "of_no_kind" in each]
    assert len(said) == 1
    assert said[0].startswith("all ranks: ")
    content = json.loads(damaged[0].read_text())
    content["traceEvents"].pop()
    damaged[0].write_text(json.dumps(content))
    (said_of_two,) = [each for each in plan(tmp_path).inspection.unknown if "of_no_kind" in each]
    assert said_of_two.startswith("rank 1, 2: ")


@pytest.mark.parametrize("told", [1, "three", None, 2**80, 2.5])
def test_a_number_of_ranks_that_says_nothing_is_passed_over(tmp_path: Path, told: object) -> None:
    _write_ranks(tmp_path, EVEN)
    _tell_ranks(tmp_path, told)
    assert not [said for said in plan(tmp_path).inspection.unknown if "missing" in said]


@pytest.mark.parametrize(
    ("size", "said"), [(3, "1 of 3 ranks is missing"), (1026, "1,024 of 1,026 ranks are")]
)
def test_ranks_without_a_trace_are_told(tmp_path: Path, size: int, said: str) -> None:
    _write_ranks(tmp_path, EVEN)
    assert "missing" not in CliRunner().invoke(app, ["plan", str(tmp_path)]).output
    _tell_ranks(tmp_path, size)
    assert plan(tmp_path).inspection.unknown[0].startswith(said)
    assert said in CliRunner().invoke(app, ["plan", str(tmp_path)]).output


def _tell_ranks(folder: Path, size: object) -> None:
    """Let each trace tell how many ranks there are."""
    for rank, file in enumerate(sorted(folder.iterdir())):
        content = json.loads(file.read_text()) | {"distributedInfo": {"rank": rank, "world_size": size}}
        file.write_text(json.dumps(content))


def test_ranks_with_other_numbers_of_collectives_are_not_matched(tmp_path: Path) -> None:
    _write_ranks(tmp_path, EVEN)
    file = tmp_path / "rank1.json"
    content = json.loads(file.read_text())
    content["traceEvents"] = [each for each in content["traceEvents"] if each["name"] != ALL_REDUCE][:-1] + [
        each for each in content["traceEvents"] if each["name"] == ALL_REDUCE
    ][1:]
    file.write_text(json.dumps(content))
    found = plan(tmp_path)
    assert any("different numbers of collectives" in said for said in found.inspection.unknown)


def test_a_folder_must_hold_one_trace_of_each_rank(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"must hold a trace .* has 0"):
        plan(tmp_path)
    _write_ranks(tmp_path, EVEN)
    (tmp_path / "again.json").write_text((tmp_path / "rank1.json").read_text())
    with pytest.raises(CostModelError, match=r"again\.json, rank1\.json are of rank 1"):
        plan(tmp_path)
    (tmp_path / "again.json").unlink()
    with pytest.raises(
        CostModelError, match=r"rank0\.json: An annotation of the trace must have the name 'step'"
    ):
        plan(tmp_path, within="step")


def test_the_command_shows_ranks(tmp_path: Path) -> None:
    _write_ranks(tmp_path, LATE)
    report = tmp_path / "plan.html"
    done = CliRunner().invoke(app, ["plan", str(tmp_path), "--report", str(report)])
    assert done.exit_code == 0, done.output
    assert "arrives last %" in done.output
    assert "<h2>Ranks</h2>" in report.read_text()
    assert re.search("name +kind +rank +tasks", done.output)
    assert re.search("<th[^>]*>rank</th><th[^>]*>tasks</th>", report.read_text())


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "absent"])
def test_a_name_that_no_folder_and_no_file_has_is_refused(name: str) -> None:
    with pytest.raises(CostModelError, match=r"Cannot read|must be"):
        plan(name)
