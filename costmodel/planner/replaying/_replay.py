"""The times that a graph gives its tasks."""

import numpy as np

from costmodel.planner.graphs._base import KernelGraph
from costmodel.planner.graphs._order import grouped
from costmodel.planner.replaying._base import Timeline


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
    first, rows = grouped(len(graph), edges.targets, np.arange(len(edges)))
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
