"""Kernels that share SMs take what a simulation in small steps says, and get streams where that pays."""

import json
from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kineto_traces import Machine, two_streams

from costmodel import CostModelError
from costmodel.planner import (
    KernelGraph,
    beside_others,
    on_best_streams,
    on_streams,
    plan,
    read_graph,
    replay,
)
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.graphs._kernel_graph import DependencyKind
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._kernel_time import count_rounds
from costmodel.planner.whatif._parse import parse_what_if
from costmodel.planner.whatif._schedule import Kernels, best_schedule
from costmodel.planner.whatif._sharing import BESIDE, WAIT_S, Slowdown

pytestmark = pytest.mark.white_box

START_US = 1.2


def graph(*tasks: tuple[str, float, float, str]) -> KernelGraph:
    """Kernels: name, microseconds, share of the SMs (of 100, by blocks of 10 warps), and what each needs."""
    return graph_of(
        [
            JsonTask(
                id=name,
                duration_s=us * 1e-6,
                after=needs.split(),
                sms=100,
                blocks=round(100 * share),
                block_warps=10,
                sm_blocks=1,
            )
            for name, us, share, needs in tasks
        ],
        "a test",
    )


def us(changed: KernelGraph) -> float:
    return replay(changed).makespan_s * 1e6


def streams(changed: KernelGraph) -> int:
    return int(changed.is_stream.sum())


@pytest.mark.parametrize(
    ("blocks", "at_once", "rounds"),
    [(132, 1, 1.0), (33, 1, 0.25), (330, 1, 2.5), (132, 4, 0.25), (66, 0, 0.5)],
)
def test_a_kernel_wants_room_for_its_blocks(blocks: int, at_once: int, rounds: float) -> None:
    tasks = [
        JsonTask("gelu", 1e-5, sms=132, blocks=blocks, sm_blocks=at_once),
        JsonTask("copy", 1e-5, kind="copy"),
        JsonTask("nobody knows", 1e-5, blocks=blocks),
    ]
    np.testing.assert_allclose(count_rounds(graph_of(tasks, "a test")), [rounds, 0.0, 1.0])


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.5, 0.5), 14),  # both fit, and are slower beside each other
        ((1.0, 1.0), 14 + 10),  # starts need no SMs; the second works when the first is done
        ((1.0, 0.5), 14 + 10),
        ((1.5, 0.5), 14 + 5),  # half of the SMs are free in the second round of the first
        ((0.75, 0.5), 14 + 5),  # half of the second's blocks fit
    ],
)
def test_blocks_find_room_in_the_order_of_their_kernels(shares: tuple[float, float], expected: float) -> None:
    both = graph(
        ("a", START_US + 10, shares[0], ""), ("b", START_US + 10, shares[1], ""), ("c", 2, 0.1, "a b")
    )
    assert us(beside_others(on_streams(both, 2), wait_s=0)) == pytest.approx(expected + 2)
    assert us(beside_others(on_streams(both, 1), wait_s=0)) == pytest.approx(24.4)


def test_a_kernel_is_slower_only_while_the_other_runs() -> None:
    """The short one has two thirds of its room: 7.5 us for its 4 and 6 of the other, which is alone then."""
    both = graph(
        ("long", START_US + 10, 0.6, ""), ("short", START_US + 4, 0.6, ""), ("end", 2, 0.1, "long short")
    )
    changed = beside_others(on_streams(both, 2), wait_s=0)
    taken = {changed.name(i): changed.durations_s[i] * 1e6 for i in range(3)}
    starts = BESIDE * START_US
    assert taken == pytest.approx({"long": starts + 7.5 + 4, "short": starts + 7.5, "end": 2})


def test_copies_are_no_neighbours_and_have_none() -> None:
    tasks = [
        JsonTask("kernel", 1e-5),
        JsonTask("copy", 8e-6, kind="copy"),
        JsonTask("end", 2e-6, after=["kernel", "copy"]),
    ]
    assert us(beside_others(on_streams(graph_of(tasks, "a test"), 2), wait_s=0)) == pytest.approx(12)


def test_a_wait_for_another_stream_takes_time() -> None:
    diamond = graph(("in", 2, 0.1, ""), ("a", 9, 0.1, "in"), ("b", 8, 0.1, "in"), ("out", 2, 0.1, "a b"))
    assert us(beside_others(on_streams(diamond, 2), wait_s=0)) == pytest.approx(2 + 8 * BESIDE + 1 + 2)
    expected = 2 + 3 + (9 - 3) * BESIDE + (8 - 6) + 3 + 2
    assert us(beside_others(on_streams(diamond, 2), wait_s=3e-6)) == pytest.approx(expected)
    with pytest.raises(CostModelError, match="wait must be a non-negative number"):
        beside_others(diamond, wait_s=-1)


def test_who_knows_better_says_what_neighbours_cost() -> None:
    both = graph(("a", START_US + 10, 0.1, ""), ("b", START_US + 10, 0.1, ""), ("c", 2, 0.1, "a b"))

    def half_as_fast(_: KernelGraph) -> Slowdown:
        return lambda works: [float(len(works))] * len(works)

    changed = beside_others(on_streams(both, 2), wait_s=0, contention=half_as_fast)
    assert us(changed) == pytest.approx(24.4)
    assert "what that costs them was told" in changed.assumptions[-1]
    assert us(on_best_streams(both, wait_s=0)) == pytest.approx(16)
    assert us(on_best_streams(both, wait_s=0, contention=half_as_fast)) == pytest.approx(24.4)


def test_small_kernels_are_put_side_by_side_and_large_ones_are_not() -> None:
    def branches(share: float) -> KernelGraph:
        chains = [
            (f"{each}{i}", 80.0, share, f"{each}{i - 1}" if i else "in") for each in "ab" for i in range(3)
        ]
        return graph(("in", 2, 0.1, ""), *chains, ("out", 2, 0.1, "a2 b2"))

    small, large = (on_best_streams(branches(share), wait_s=1e-6) for share in (0.3, 1.0))
    assert (streams(small), streams(large)) == (2, 1)
    assert us(small) == pytest.approx(2 + 1 + (240 - 1) * BESIDE + 1 + 2)
    assert us(large) == pytest.approx(2 + 480 + 2)
    assert "8 kernels are on 2 of up to 8 streams" in small.assumptions[-1]
    assert "stay on one stream: more gain less than 2 %" in large.assumptions[-1]
    assert streams(on_best_streams(branches(0.3), most=1)) == 1


def test_short_kernels_do_not_wait_for_each_other_across_streams() -> None:
    diamond = graph(("in", 2, 0.1, ""), ("a", 2, 0.1, "in"), ("b", 2, 0.1, "in"), ("out", 2, 0.1, "a b"))
    assert streams(on_best_streams(diamond, wait_s=0.5e-6)) == 2
    assert streams(on_best_streams(diamond, wait_s=2e-6)) == 1


def test_the_longest_way_to_the_end_goes_first() -> None:
    """Of three that could start on two streams, the one with a chain behind it must."""
    behind = graph(
        ("a", 5, 0.1, ""), ("b", 5, 0.1, ""), ("c", 5, 0.1, ""), ("d", 9, 0.1, "c"), ("e", 2, 0.1, "a b d")
    )
    changed = replay(on_best_streams(behind, most=2, wait_s=0))
    first = [changed.graph.name(task) for task in np.flatnonzero(changed.starts_s == 0)]
    assert "c" in first
    assert changed.makespan_s * 1e6 == pytest.approx(10 * BESIDE + 4 + 2)


def test_a_long_chain_goes_before_many_long_kernels() -> None:
    chain = [(f"c{i}", 10.0, 0.1, f"c{i - 1}" if i else "") for i in range(20)]
    found = graph(*((f"k{i}", 12.0, 0.1, "") for i in range(16)), *chain)
    assert us(on_best_streams(found, most=2)) == pytest.approx(192 * BESIDE + 8)
    kernels = Kernels.of(found)
    first = next(task for task in kernels.tasks if kernels.graph.name(task) == "c0")
    assert kernels.seconds_to_end[first] == pytest.approx(200e-6)


def test_gaps_stay_and_the_host_is_waited_for() -> None:
    tasks = [
        JsonTask("call", 3e-6, kind="launch"),
        JsonTask("a", 4e-6, launched_by="call", launch_s=5e-6),
        JsonTask("b", 4e-6, gap_s=1e-6, after=["a"]),
        JsonTask("wait", 1e-6, kind="sync", after=["b"]),
    ]
    changed = on_best_streams(graph_of(tasks, "a test"), wait_s=1e-6)
    assert us(changed) == pytest.approx(5 + 4 + 1 + 4 + 1)
    assert us(on_streams(graph_of(tasks, "a test"), 2)) == pytest.approx(15)
    assert [each.name for each in changed.resources] == ["thread 0", "stream 0"]


def test_what_the_host_waits_for_comes_before_what_it_launches_then() -> None:
    """The second kernel is more urgent than the first, but is launched once the first is done."""
    tasks = [
        JsonTask("a", 2e-6),
        JsonTask("decide", 1e-6, kind="sync", after=["a"]),
        JsonTask("b", 9e-6, launched_by="decide"),
        JsonTask("c", 2e-6, after=["b"]),
    ]
    assert us(on_best_streams(graph_of(tasks, "a test"))) == pytest.approx(2 + 9 + 2)
    kernels = Kernels.of(graph_of(tasks, "a test"))
    named = {kernels.graph.name(task): task for task in range(len(tasks))}
    assert kernels.needs[named["b"]] == [named["a"]]
    assert kernels.needs[named["decide"]] == []


def test_what_is_launched_later_holds_up_nothing_that_is_launched() -> None:
    """The last kernel is the most urgent, but is launched after what fills the GPU until then."""
    tasks = [
        JsonTask("call a", 3e-6, kind="launch"),
        JsonTask("prepare", 100e-6, kind="host"),
        JsonTask("call b", 3e-6, kind="launch"),
        JsonTask("a", 50e-6, launched_by="call a", sms=100, blocks=1000),
        JsonTask("b", 80e-6, launched_by="call b", sms=100, blocks=1000),
    ]
    tasks.append(JsonTask("c", 1e-6, after=["a", "b"], sms=100, blocks=1000))
    found = graph_of(tasks, "a test")
    assert us(on_best_streams(found, most=1)) == pytest.approx(us(found))


def test_what_streams_wait_for_is_not_all_that_kernels_need(tmp_path: Path) -> None:
    """A trace of two streams has waits between them, but not what kernels of one stream need."""
    trace = read_kineto(two_streams(Machine()).save(tmp_path / "trace.json")).graph
    for change in (on_best_streams, lambda graph: on_streams(graph, 2)):
        with pytest.raises(CostModelError, match="and their waits alone, as traces do"):
            change(trace)
    with pytest.raises(CostModelError, match="at least 1, but got 0"):
        on_best_streams(graph(("a", 2, 0.1, ""), ("b", 2, 0.1, "a")), most=0)


def test_it_can_be_asked_for_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    task = {"duration_s": 2e-5, "sms": 132, "blocks": 16, "block_warps": 8, "sm_blocks": 2}
    tasks = [{"id": "in", **task}, *({"id": each, "after": ["in"], **task} for each in "ab")]
    path.write_text(json.dumps({"tasks": tasks}))
    found = plan(path, "streams=auto")
    assert found.after.graph.is_stream.sum() == 2
    wait_us = WAIT_S * 1e6
    expected = 20 + wait_us + (20 - wait_us) * BESIDE + wait_us
    assert found.speedup == pytest.approx(60 / expected)
    assert us(parse_what_if("streams=auto")[0](read_graph(path).graph)) == pytest.approx(expected)
    with pytest.raises(CostModelError, match="streams=K, streams:SLOWDOWN=K or streams=auto, but got"):
        parse_what_if("streams:1.2=auto")


@st.composite
def branching(draw: st.DrawFn) -> KernelGraph:
    """Kernels that need earlier ones."""
    tasks: list[tuple[str, float, float, str]] = []
    for i in range(draw(st.integers(2, 9))):
        needs = draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set()
        needs = needs or ({i - 1} if i == 1 else set())
        share, length = (
            draw(st.sampled_from([0.1, 0.4, 0.7, 1.0, 2.5])),
            draw(st.sampled_from([1.0, 3.2, 6.2, 9.2])),
        )
        tasks.append((f"k{i}", length, share, " ".join(f"k{each}" for each in sorted(needs))))
    return graph(*tasks)


def in_small_steps(found: KernelGraph, alone: dict[str, float], wait_us: float) -> float:
    """Microseconds until the last kernel ends, a fiftieth of one at a time."""
    step, now = 0.02, 0.0
    rounds = dict(zip([found.name(i) for i in range(len(found))], count_rounds(found).tolist(), strict=True))
    stream = {found.name(i): int(found.resource_ids[i]) for i in range(len(found))}
    lines = [[name for name in stream if stream[name] == each] for each in sorted(set(stream.values()))]
    before = {second: first for line in lines for first, second in pairwise(line)}
    edges = found.dependencies
    needs: dict[str, set[str]] = {name: set() for name in stream}
    for source, target in zip(edges.sources.tolist(), edges.targets.tolist(), strict=True):
        needs[found.name(target)].add(found.name(source))
    passed, ends = dict.fromkeys(stream, 0.0), dict[str, float]()
    starts = replay(found).starts_s.round(13).tolist()
    order = [found.name(i) for i in sorted(range(len(found)), key=lambda i: (starts[i], i))]
    while len(ends) < len(stream):
        running = [
            name
            for name in stream
            if name not in ends
            and before.get(name, name) in {name, *ends}
            and all(
                each in ends and now + step / 2 >= ends[each] + wait_us * (stream[each] != stream[name])
                for each in needs[name]
            )
        ]
        slower, room = BESIDE if len(running) > 1 else 1.0, 1.0
        now += step
        for name in sorted(running, key=order.index):
            work = alone[name] - START_US
            wanted = rounds[name]
            if passed[name] < min(START_US, alone[name]) - step / 2:
                wanted = 0.0
            elif wanted > 1:
                is_last = passed[name] - START_US >= work * (1 - 1 / ceil(wanted))
                wanted = wanted - ceil(wanted) + 1 if is_last else 1.0
            got = min(wanted, room)
            room -= got
            passed[name] += step / slower * (got / wanted if wanted else 1.0)
            if passed[name] >= alone[name] - step / 2:
                ends[name] = now
    return now


# Kernels of these start at the same moment, after kernels that end at the same moment.
TIES_ON_ROOM = [
    graph(
        *(("k0", 6.2, 0.1, ""), ("k1", 1.0, 0.1, "k0"), ("k2", 1.0, 0.1, "k0"), ("k3", 6.2, 1.0, "k0 k1")),
        *(("k4", 9.2, 1.0, ""), ("k5", 9.2, 2.5, "k2 k4"), ("k6", 1.0, 0.1, "")),
    ),
    graph(
        *(("k0", 3.2, 0.1, ""), ("k1", 1.0, 0.1, "k0"), ("k2", 1.0, 0.1, "k0"), ("k3", 3.2, 0.1, "k0 k1")),
        *(("k4", 9.2, 1.0, ""), ("k5", 6.2, 1.0, "k2 k4")),
    ),
]


@settings(max_examples=30)
@given(branching(), st.sampled_from([0.0, 1.0]))
@example(TIES_ON_ROOM[0], 0.0)
@example(TIES_ON_ROOM[1], 0.0)
def test_schedules_take_what_a_simulation_in_small_steps_takes(found: KernelGraph, wait_us: float) -> None:
    alone = {found.name(i): found.durations_s[i] * 1e6 for i in range(len(found))}
    chosen = on_best_streams(found, wait_s=wait_us * 1e-6)
    assert us(chosen) == pytest.approx(in_small_steps(chosen, alone, wait_us), abs=0.04 * len(found) + 0.1)
    assert us(chosen) <= found.durations_s.sum() * 1e6 + 1e-6
    covered = beside_others(on_streams(found, 8), wait_s=wait_us * 1e-6)
    assert us(covered) == pytest.approx(in_small_steps(covered, alone, wait_us), abs=0.04 * len(found) + 0.1)


# Two of these kernels start at the same moment, the one with the longer way to the end after the other in the
# order of their names.
TIES = graph(
    ("k0", 3.2, 0.1, ""),
    ("k1", 6.2, 1.0, "k0"),
    ("k2", 9.2, 1.5, "k1"),
    ("k3", 3.2, 0.4, ""),
    ("k4", 3.2, 0.1, ""),
    ("k5", 3.2, 1.5, ""),
)


@settings(max_examples=30)
@given(branching(), st.integers(1, 3))
@example(TIES, 3)
def test_a_schedule_knows_what_its_graph_takes(found: KernelGraph, most: int) -> None:
    gaps = found.dependencies.kinds == DependencyKind.ORDER
    apart = found.assuming(dependencies=found.dependencies.lagging(np.where(gaps, 0.4e-6, 0.0)))
    schedule = best_schedule(Kernels.of(apart), most)
    assert us(on_best_streams(apart, most=most)) == pytest.approx(schedule.makespan_s * 1e6)


@settings(max_examples=30)
@given(branching(), st.integers(1, 3))
def test_no_kernel_starts_before_what_it_needs_is_done(found: KernelGraph, most: int) -> None:
    timeline = replay(on_best_streams(found, most=most))
    changed = timeline.graph
    assert streams(changed) <= most
    place = {changed.name(i): i for i in range(len(changed))}
    assert sorted(place) == sorted(found.name(i) for i in range(len(found)))
    needs = found.dependencies.where(found.dependencies.kinds == DependencyKind.DATA)
    for source, target in zip(needs.sources.tolist(), needs.targets.tolist(), strict=True):
        start, end = timeline.starts_s[place[found.name(target)]], timeline.ends_s[place[found.name(source)]]
        assert start >= end - 1e-12
