"""Timelines as files: lanes over time with the critical path marked, and Chrome's JSON for Perfetto."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Patch, Rectangle

from costmodel.files import write_whole
from costmodel.planner._replay import Timeline, critical_path
from costmodel.planner.graphs._kernel_graph import DependencyKind, TaskKind
from costmodel.report._figures import NotebookFigure

_COLOURS = {
    TaskKind.KERNEL: "#4c9f8f",
    TaskKind.COPY: "#8da0cb",
    TaskKind.MEMSET: "#b7c5e3",
    TaskKind.HOST: "#d9d9d9",
    TaskKind.LAUNCH: "#f2c45f",
    TaskKind.SYNC: "#a6a6a6",
}
_CRITICAL = "#c0392b"
# Rectangles of a lane: more could not be told apart.
_MOST = 4000


def plot_timelines(timelines: dict[str, Timeline]) -> NotebookFigure:
    """Draw timelines one above the other, on one axis of time.

    Args:
        timelines: By title.
    """
    end = max(timeline.ends_s.max(initial=0.0) for timeline in timelines.values())
    factor, unit = (1e6, "us") if end < 1e-3 else (1e3, "ms")
    lanes = [max(len(each.graph.resources), 1) for each in timelines.values()]
    figure = NotebookFigure(figsize=(11, 1.1 + sum(0.6 + 0.42 * n for n in lanes)), layout="constrained")
    axes = figure.subplots(len(timelines), 1, sharex=True, squeeze=False, height_ratios=lanes)[:, 0]
    kinds = set[TaskKind]()
    for axis, (title, timeline) in zip(axes, timelines.items(), strict=True):
        kinds |= _draw(axis, timeline, factor)
        axis.set_title(f"{title}: {timeline.makespan_s * factor:,.1f} {unit}", loc="left", fontsize=10)
    axes[-1].set_xlabel(f"time, {unit}")
    axes[-1].set_xlim(0, end * factor * 1.01 or 1)
    marks: list[Any] = [Patch(color=_COLOURS[kind], label=kind.name.lower()) for kind in sorted(kinds)]
    marks.append(Patch(color=_CRITICAL, label="critical path"))
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False, fontsize=8)
    return figure


def _draw(axis: Axes, timeline: Timeline, factor: float) -> set[TaskKind]:
    graph = timeline.graph
    critical = np.zeros(len(graph), dtype=bool)
    critical[critical_path(timeline).tasks] = True
    for lane in range(len(graph.resources)):
        tasks = np.flatnonzero(graph.resource_ids == lane)
        tasks = np.sort(tasks[np.argsort(-graph.durations_s[tasks], kind="stable")[:_MOST]])
        boxes = [
            Rectangle((timeline.starts_s[task] * factor, lane - 0.36), graph.durations_s[task] * factor, 0.72)
            for task in tasks.tolist()
        ]
        colours = [_COLOURS[TaskKind(kind)] for kind in graph.kinds[tasks].tolist()]
        axis.add_collection(PatchCollection(boxes, facecolor=colours, edgecolor="white", linewidth=0.2))
        marked = [
            Rectangle(box.get_xy(), box.get_width(), 0.12)
            for box, task in zip(boxes, tasks.tolist(), strict=True)
            if critical[task]
        ]
        axis.add_collection(PatchCollection(marked, facecolor=_CRITICAL, edgecolor=_CRITICAL, linewidth=0.6))
    axis.set_yticks(range(len(graph.resources)), [each.name for each in graph.resources], fontsize=8)
    axis.set_ylim(len(graph.resources) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)
    return {TaskKind(kind) for kind in np.unique(graph.kinds).tolist()}


# One process for threads and one for streams, so that Perfetto groups them.
_HOST, _DEVICE = 1, 2


def save_perfetto(timeline: Timeline, path: Path) -> None:
    """Write a timeline for https://ui.perfetto.dev or chrome://tracing; tasks of the critical path say so.

    Raises:
        CostModelError: The file cannot be written.
    """
    events = [*_tracks(timeline), *_tasks(timeline), *_arrows(timeline)]
    write_whole(path, msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events}))


def _tracks(timeline: Timeline) -> list[dict[str, Any]]:
    processes = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in ((_HOST, "host"), (_DEVICE, "device"))
    ]
    threads = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": _process(each.is_stream),
            "tid": i,
            "args": {"name": each.name},
        }
        for i, each in enumerate(timeline.graph.resources)
    ]
    return processes + threads


def _tasks(timeline: Timeline) -> list[dict[str, Any]]:
    graph = timeline.graph
    critical = set(critical_path(timeline).tasks.tolist())
    starts, durations = (timeline.starts_s * 1e6).tolist(), (graph.durations_s * 1e6).tolist()
    resources, kinds = graph.resource_ids.tolist(), graph.kinds.tolist()
    return [
        {
            "ph": "X",
            "cat": TaskKind(kinds[task]).name.lower(),
            "name": graph.name(task),
            "pid": _process(graph.resources[resources[task]].is_stream),
            "tid": resources[task],
            "ts": starts[task],
            "dur": durations[task],
            "args": {"critical path": task in critical},
        }
        for task in range(len(graph))
    ]


def _arrows(timeline: Timeline) -> list[dict[str, Any]]:
    """Arrows of what waits across threads and streams."""
    graph, edges = timeline.graph, timeline.graph.dependencies
    across = edges.where((edges.kinds != DependencyKind.ORDER) & _differ(graph.resource_ids, edges))
    found = []
    for number, (source, target, kind) in enumerate(
        zip(across.sources.tolist(), across.targets.tolist(), across.kinds.tolist(), strict=True)
    ):
        name = DependencyKind(kind).name.lower()
        for phase, task in (("s", source), ("f", target)):
            resource = int(graph.resource_ids[task])
            arrow = {"ph": phase, "id": number, "cat": name, "name": name, "tid": resource}
            arrow |= {
                "pid": _process(graph.resources[resource].is_stream),
                "ts": float(timeline.starts_s[task]) * 1e6,
            }
            found.append(arrow | ({"bp": "e"} if phase == "f" else {}))
    return found


def _differ(resource_ids: Any, edges: Any) -> Any:
    return resource_ids[edges.sources] != resource_ids[edges.targets]


def _process(is_stream: bool) -> int:
    return _DEVICE if is_stream else _HOST
