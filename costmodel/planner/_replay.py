"""Replay of a kernel graph: when its tasks start and end, and the chain that holds up the last of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind, group_values


@dataclass(frozen=True)
class Timeline:
    """A graph with the start of each task.

    Attributes:
        graph: The graph.
        starts_s: ``(n,)`` starts, in seconds.
        held_by: ``(n,)`` dependency that each task waited for last, as a row of ``graph.dependencies``; -1 if
            it waited for none.
    """

    graph: KernelGraph
    starts_s: FloatArray
    held_by: Positions

    @cached_property
    def ends_s(self) -> FloatArray:
        """``(n,)`` ends, in seconds."""
        ends: FloatArray = self.starts_s + self.graph.durations_s
        return ends

    @cached_property
    def makespan_s(self) -> float:
        """Seconds from the first start to the last end; 0 if there is no task."""
        return float(self.ends_s.max() - self.starts_s.min()) if len(self.graph) else 0.0

    @cached_property
    def device_busy_s(self) -> float:
        """Seconds in which at least one kernel, copy or memset runs."""
        return busy_s(self.starts_s[self.graph.on_device], self.ends_s[self.graph.on_device])

    @cached_property
    def launches(self) -> int:
        """Number of tasks that launch something."""
        return int(self.graph.of_kind(TaskKind.LAUNCH).sum())


def busy_s(starts_s: FloatArray, ends_s: FloatArray) -> float:
    """Add up the seconds that intervals cover together.

    Example:
        >>> busy_s(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
        4.0
    """
    if not len(starts_s):
        return 0.0
    order = np.argsort(starts_s, kind="stable")
    starts, ends = starts_s[order], np.maximum.accumulate(ends_s[order])
    fresh: NDArray[np.bool_] = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([ends[:-1][fresh[1:]], ends[-1:]])
    return float((last - starts[fresh]).sum())


def replay(graph: KernelGraph) -> Timeline:
    """Compute when each task runs if it starts as soon as its dependencies allow.

    Each resource runs its tasks one by one in their order, which dependencies also express. An event-driven
    simulation therefore has only one outcome, and one pass over the tasks in topological order finds it: two
    million tasks take seconds.

    Raises:
        CostModelError: If the dependencies form a cycle.
    """
    edges, durations = graph.dependencies, graph.durations_s
    # What a dependency adds to the start of its first task.
    delays = edges.lags_s + np.where(edges.from_start, 0.0, durations[edges.sources])
    first, rows = group_values(len(graph), edges.targets, np.arange(len(edges)))
    sources = edges.sources[rows].tolist()
    delay = delays[rows].tolist()
    starts = graph.ready_s.tolist()
    held_by = [-1] * len(graph)
    for task in graph.order.tolist():
        start = starts[task]
        held = -1
        for i in range(first[task], first[task + 1]):
            moment = starts[sources[i]] + delay[i]
            if moment >= start:
                start, held = moment, rows[i]
        starts[task], held_by[task] = start, held
    return Timeline(graph, np.array(starts), np.array(held_by, dtype=np.intp))


@dataclass(frozen=True)
class CriticalPath:
    """Chain of tasks that each waited for the previous one, from the first start to the last end.

    Attributes:
        timeline: The timeline that the tasks belong to.
        tasks: ``(p,)`` positions in the graph, in time order.
        spent_s: ``(p,)`` seconds of the makespan between a task's start and the start of the next task on the
            path in which the task itself ran. The rest, ``waited_s``, is lag.
        waited_s: ``(p,)`` seconds between the counted part of the previous task and the task's start.
    """

    timeline: Timeline
    tasks: Positions
    spent_s: FloatArray
    waited_s: FloatArray

    def by_name(self) -> pd.DataFrame:
        """Return ``name``, ``kind``, ``tasks``, ``seconds`` and ``share`` of the makespan, longest first.

        Gaps are the time between tasks, by whether a device or a host waited. Where several ranks were
        recorded, ``rank`` comes after ``kind``: of the task, or of the one that waited.
        """
        graph = self.timeline.graph
        on_device = graph.on_device[self.tasks]
        ranks = [graph.resources[each].rank for each in graph.resource_ids[self.tasks].tolist()]
        by = ["name", "kind"] if None in ranks else ["name", "kind", "rank"]
        rows = pd.DataFrame(
            {
                "name": [graph.name(task) for task in self.tasks.tolist()],
                "kind": [TaskKind(kind).name.lower() for kind in graph.kinds[self.tasks].tolist()],
                "rank": ranks,
                "seconds": self.spent_s,
            }
        )
        waits = pd.DataFrame(
            {
                "name": np.where(on_device, "(launch latency, gaps between kernels)", "(gaps of the host)"),
                "kind": "gap",
                "rank": ranks,
                "seconds": self.waited_s,
            }
        )
        rows = pd.concat([rows, waits[waits.seconds > 0]])
        table = rows.groupby(by, sort=False, as_index=False).agg(
            tasks=("seconds", "size"), seconds=("seconds", "sum")
        )
        table["share"] = table.seconds / (self.timeline.makespan_s or 1.0)
        return table.sort_values("seconds", ascending=False, kind="stable", ignore_index=True)


def critical_path(timeline: Timeline) -> CriticalPath:
    """Find what held back the task that ends last, what held that back, and so on to the beginning.

    If several tasks end last at the same time, the first in the graph's order counts.
    """
    graph, edges = timeline.graph, timeline.graph.dependencies
    if not len(graph):
        empty = np.zeros(0)
        return CriticalPath(timeline, np.zeros(0, dtype=np.intp), empty, empty)
    tasks = [int(np.argmax(timeline.ends_s))]
    while (row := int(timeline.held_by[tasks[-1]])) >= 0:
        tasks.append(int(edges.sources[row]))
    path = np.array(tasks[::-1], dtype=np.intp)
    steps = np.diff(timeline.starts_s[path])
    # From the start of a launch to that of its kernel the launch itself counts, as far as it reaches.
    ran = np.minimum(graph.durations_s[path[:-1]], steps)
    spent = np.append(ran, graph.durations_s[path[-1]])
    waited = np.concatenate([[timeline.starts_s[path[0]] - timeline.starts_s.min()], steps - ran])
    return CriticalPath(timeline, path, spent, waited)
