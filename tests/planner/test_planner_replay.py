"""Replay against a simulation from event to event, and the critical path."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.planner import KernelGraph, read_graph, replay
from costmodel.planner._replay import busy_s, critical_path

pytestmark = pytest.mark.white_box


def load(tmp_path: Path, tasks: list[dict[str, Any]]) -> KernelGraph:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return read_graph(path).graph


def random_tasks(seed: int, n: int = 60) -> list[dict[str, Any]]:
    """Tasks on streams and a thread that need earlier ones of any resource."""
    draw = random.Random(seed)
    tasks: list[dict[str, Any]] = []
    for i in range(n):
        task: dict[str, Any] = {"id": f"t{i}", "duration_s": draw.choice([0.0, 1e-6, 2e-6, 7e-6])}
        if draw.random() < 0.4:
            task |= {"kind": "launch", "resource": "cpu", "gap_s": draw.choice([0.0, 3e-7])}
        else:
            launches = [each["id"] for each in tasks if each.get("kind") == "launch"]
            task |= {"resource": f"stream {draw.randrange(3)}", "gap_s": draw.choice([0.0, 5e-7])}
            if launches:
                task |= {"launched_by": draw.choice(launches), "launch_s": 4e-6}
        if tasks and draw.random() < 0.5:
            task["after"] = [draw.choice(tasks)["id"] for _ in range(draw.randrange(1, 3))]
        tasks.append(task)
    return tasks


def simulated(tasks: list[dict[str, Any]]) -> list[float]:
    """Starts by going from moment to moment: a resource takes its next task once all has happened for it."""
    queues: dict[str, list[int]] = {}
    for i, task in enumerate(tasks):
        queues.setdefault(task["resource"], []).append(i)
    number = {task["id"]: i for i, task in enumerate(tasks)}
    free: dict[str, float] = {}
    began: dict[int, float] = {}
    ended: dict[int, float] = {}
    now = 0.0
    while len(began) < len(tasks):
        progress = True
        while progress:
            progress = False
            for resource, queue in queues.items():
                ready = (
                    _ready(tasks, queue[0], number, free=free.get(resource), began=began, ended=ended)
                    if queue
                    else None
                )
                if ready is not None and ready <= now:
                    i = queue.pop(0)
                    began[i], ended[i] = ready, ready + tasks[i]["duration_s"]
                    free[resource] = ended[i]
                    progress = True
        following = [
            _ready(tasks, queue[0], number, free=free.get(name), began=began, ended=ended)
            for name, queue in queues.items()
            if queue
        ]
        now = min((moment for moment in following if moment is not None), default=now)
    return [began[i] for i in range(len(tasks))]


def _ready(
    tasks: list[dict[str, Any]],
    i: int,
    number: dict[str, int],
    *,
    free: float | None,
    began: dict[int, float],
    ended: dict[int, float],
) -> float | None:
    """When a task can begin, as far as all that it waits for has begun."""
    task = tasks[i]
    needed = [number[each] for each in task.get("after", ())]
    launch = number.get(task.get("launched_by", ""))
    if any(each not in began for each in needed) or (launch is not None and launch not in began):
        return None
    moments = [0.0 if free is None else free + task.get("gap_s", 0.0), *(ended[each] for each in needed)]
    return max([*moments, began[launch] + task["launch_s"]] if launch is not None else moments)


@pytest.mark.parametrize("seed", range(30))
def test_a_replay_is_what_a_simulation_of_events_gives(tmp_path: Path, seed: int) -> None:
    tasks = random_tasks(seed)
    timeline = replay(load(tmp_path, tasks))
    np.testing.assert_allclose(timeline.starts_s, simulated(tasks), rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(10))
def test_the_critical_path_is_the_longest_and_makes_up_the_makespan(tmp_path: Path, seed: int) -> None:
    graph = load(tmp_path, random_tasks(seed))
    timeline = replay(graph)
    path = critical_path(timeline)
    assert path.spent_s.sum() + path.waited_s.sum() == pytest.approx(timeline.makespan_s)
    assert path.by_name().share.sum() == pytest.approx(1.0)
    assert (path.waited_s >= -1e-18).all()
    # By networkx: the longest path over edges that weigh what passes between two starts.
    weighed = networkx.DiGraph()
    weighed.add_nodes_from(range(len(graph)))
    for source, target, data in graph.to_networkx().edges(data=True):
        took = 0.0 if data["from_start"] else graph.durations_s[source]
        weighed.add_edge(source, target, weight=took + data["lag_s"])
    for task in range(len(graph)):
        weighed.add_edge(task, "end", weight=graph.durations_s[task])
    longest = networkx.dag_longest_path_length(weighed)
    # to_networkx has one edge for each pair; a pair may have two dependencies, of which one may be shorter.
    assert longest <= timeline.makespan_s + 1e-12
    assert networkx.is_directed_acyclic_graph(weighed)


def test_tasks_in_any_order_of_the_file_are_replayed_by_what_they_wait_for(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        [
            {"id": "late", "duration_s": 1.0, "resource": "b", "after": ["early"]},
            {"id": "early", "duration_s": 2.0, "resource": "a"},
        ],
    )
    timeline = replay(graph)
    assert timeline.starts_s.tolist() == [2.0, 0.0]
    assert timeline.makespan_s == 3.0
    assert [graph.name(task) for task in critical_path(timeline).tasks] == ["early", "late"]


def test_what_lies_between_tasks_of_the_path_is_a_gap(tmp_path: Path) -> None:
    graph = load(
        tmp_path,
        [
            {"id": "call", "kind": "launch", "duration_s": 1.0},
            {"id": "mm", "duration_s": 5.0, "launched_by": "call", "launch_s": 4.0},
            {"id": "add", "duration_s": 2.0, "gap_s": 0.5},
        ],
    )
    table = critical_path(replay(graph)).by_name().set_index("name")
    assert table.seconds.to_dict() == {
        "mm": 5.0,
        "(launch latency, gaps between kernels)": 3.5,
        "add": 2.0,
        "call": 1.0,
    }


def test_overlapping_work_is_busy_once() -> None:
    draw = np.random.default_rng(0)
    starts = draw.integers(0, 50, 30).astype(float)
    ends = starts + draw.integers(0, 6, 30)
    covered = {t for start, end in zip(starts, ends, strict=True) for t in range(int(start), int(end))}
    assert busy_s(starts, ends) == len(covered)
    assert busy_s(starts[:0], ends[:0]) == 0.0


def test_tasks_that_wait_for_each_other_are_refused(tmp_path: Path) -> None:
    tasks = [
        {"id": a, "duration_s": 1.0, "resource": a, "after": [b]} for a, b in itertools.permutations("xy")
    ]
    with pytest.raises(CostModelError, match=r"2 of 2 tasks wait for one\. Remove a dependency"):
        load(tmp_path, tasks)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "must be a kernel graph, such as .* length >= 1"),
        ([{"id": "a", "duration_s": -1.0}], "`float` >= 0.0 - at `\\$.tasks\\[0\\].duration_s"),
        ([{"id": "a", "duration_s": 1.0, "colour": 1}], "unknown field `colour`"),
        ([{"id": "a", "duration_s": 1.0}] * 2, "has 1 twice and 0 unknown"),
        ([{"id": "a", "duration_s": 1.0, "after": ["b"], "launched_by": "c"}], r"2 unknown \['b', 'c'\]"),
    ],
)
def test_a_graph_of_ones_own_that_makes_no_sense_is_refused(
    tmp_path: Path, tasks: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(CostModelError, match=message):
        load(tmp_path, tasks)


def test_a_graph_of_networkx_has_all_columns(tmp_path: Path) -> None:
    tasks = [
        {
            "id": "a",
            "duration_s": 1.0,
            "name": "mm",
            "sms": 8,
            "blocks": 9,
            "scope": "layer",
            "workload": "softmax-m8-n64",
        },
        {"id": "b", "duration_s": 2.0, "kind": "sync", "after": ["a"]},
    ]
    graph = load(tmp_path, tasks).to_networkx()
    assert graph.nodes[0] == {
        "name": "mm",
        "kind": "kernel",
        "resource": "stream 0",
        "duration_s": 1.0,
        "sms": 8,
        "blocks": 9,
        "scope": "layer",
        "workload": "softmax-m8-n64",
    }
    assert list(graph.edges(data=True)) == [(0, 1, {"kind": "sync", "lag_s": 0.0, "from_start": False})]
