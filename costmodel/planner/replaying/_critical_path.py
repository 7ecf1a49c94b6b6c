"""The longest chain of tasks and waits: what a shorter makespan has to shorten."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray, Positions
from costmodel.planner.graphs._base import TaskKind
from costmodel.planner.replaying._base import Timeline


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

        The last rows are gaps: the time between tasks, by whether a device or a host waited.
        """
        graph = self.timeline.graph
        on_device = graph.on_device[self.tasks]
        rows = pd.DataFrame(
            {
                "name": [graph.name(task) for task in self.tasks.tolist()],
                "kind": [TaskKind(kind).name.lower() for kind in graph.kinds[self.tasks].tolist()],
                "seconds": self.spent_s,
            }
        )
        waits = pd.DataFrame(
            {
                "name": np.where(on_device, "(launch latency, gaps between kernels)", "(gaps of the host)"),
                "kind": "gap",
                "seconds": self.waited_s,
            }
        )
        rows = pd.concat([rows, waits[waits.seconds > 0]])
        table = rows.groupby(["name", "kind"], sort=False, as_index=False).agg(
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
