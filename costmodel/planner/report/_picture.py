"""Lanes over time: what each thread and stream does, with the critical path marked."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Patch, Rectangle

from costmodel.figures import Picture
from costmodel.planner.graphs._base import TaskKind
from costmodel.planner.replaying._base import Timeline
from costmodel.planner.replaying._critical_path import critical_path

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


def draw_timelines(timelines: dict[str, Timeline]) -> Picture:
    """Timelines one above the other, on one axis of time.

    Args:
        timelines: By title.
    """
    end = max(timeline.ends_s.max(initial=0.0) for timeline in timelines.values())
    factor, unit = (1e6, "us") if end < 1e-3 else (1e3, "ms")
    lanes = [max(len(each.graph.resources), 1) for each in timelines.values()]
    figure = Picture(figsize=(11, 1.1 + sum(0.6 + 0.42 * n for n in lanes)), layout="constrained")
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
