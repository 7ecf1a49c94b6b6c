"""A timeline as Chrome's JSON, which Perfetto opens."""

from pathlib import Path
from typing import Any

import msgspec

from costmodel.files import write_whole
from costmodel.planner.graphs._base import DependencyKind, TaskKind
from costmodel.planner.replaying._base import Timeline
from costmodel.planner.replaying._critical_path import critical_path

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
