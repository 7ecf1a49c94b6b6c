"""Kernel graphs in a JSON of one's own."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_class import KernelClass, class_of_name, class_of_workload
from costmodel.planner.graphs._kernel_graph import (
    Dependencies,
    DependencyKind,
    KernelGraph,
    Resource,
    TaskKind,
)
from costmodel.planner.graphs._recorded_graph import RecordedGraph
from costmodel.reading import Finite, Whole32, read_json
from costmodel.records._device_table import find_device
from costmodel.records._workload import Workload

_ON_HOST = ("host", "launch", "sync")


class JsonTask(msgspec.Struct, forbid_unknown_fields=True):
    """A task of the file.

    Attributes:
        id: What others call it in ``after``; unique.
        duration_s: Seconds.
        name: What it is, for patterns and tables; its id if not given.
        kind: ``kernel``, ``copy``, ``memset``, ``host``, ``launch`` or ``sync``.
        resource: The stream, or for the last three kinds the thread, that runs it; tasks of one run in the
            order of the file.
        after: Ids of tasks whose results it needs.
        launched_by: Id of its launch, from whose start ``launch_s`` seconds pass at least.
        launch_s: See there.
        gap_s: Seconds that pass at least since the end of the task before it on its resource.
        sms: SMs that it ran on; 0 if nobody knows.
        blocks: Blocks of its grid; 0 if nobody knows.
        block_warps: Warps of one of them; 0 if nobody knows.
        sm_blocks: Blocks that an SM holds at once; 0 if nobody knows.
        scope: What it is part of, such as a layer.
        workload: Name of the workload that a kernel computes, such as ``matmul-m128-n768-k3072``.
    """

    id: str
    duration_s: Finite
    name: str = ""
    kind: Literal["kernel", "copy", "memset", "host", "launch", "sync"] = "kernel"
    resource: str = ""
    after: list[str] = []
    launched_by: str | None = None
    launch_s: Finite = 0.0
    gap_s: Finite = 0.0
    sms: Whole32 = 0
    blocks: Whole32 = 0
    block_warps: Whole32 = 0
    sm_blocks: Whole32 = 0
    scope: str = ""
    workload: str = ""

    @property
    def place(self) -> str:
        """Its resource, or the one of its kind if it names none."""
        return self.resource or ("thread 0" if self.kind in _ON_HOST else "stream 0")


class JsonGraph(msgspec.Struct, forbid_unknown_fields=True):
    """The file.

    Attributes:
        tasks: Tasks, those of one resource in the order in which it runs them.
        device: GPU that kernels run on, as `costmodel devices list` names it; empty if nobody knows.
    """

    tasks: Annotated[list[JsonTask], msgspec.Meta(min_length=1)]
    device: str = ""


def read_graph(path: Path | str) -> RecordedGraph:
    """Read a kernel graph from a JSON file laid out as ``JsonGraph``: ``{"tasks": [{"id": ..., ...}]}``.

    Raises:
        CostModelError: If the file cannot be read, has another layout, refers to a missing task or workload,
            uses an id twice, or its dependencies form a cycle.
    """
    path = Path(path)
    what = 'a kernel graph, such as {"tasks": [{"id": "a", "duration_s": 1e-5}]}'
    found: JsonGraph = read_json(path, JsonGraph, what, remedy="Correct it.")
    graph = graph_of(found.tasks, str(path))
    return RecordedGraph.unrecorded(
        graph.assuming(device=find_device(found.device)) if found.device else graph
    )


def graph_of(tasks: list[JsonTask], where: str) -> KernelGraph:
    """Make the graph of tasks, those of one resource in the order in which it runs them.

    Args:
        tasks: One or more.
        where: What they are from, for messages.

    Raises:
        CostModelError: They name a task or workload that is not there, or wait in a circle.
    """
    graph = _graph(tasks, _positions(tasks, where))
    for name in graph.workloads[1:]:
        Workload.parse(name)
    graph.order  # noqa: B018 (refuses circles)
    return graph


def _positions(tasks: list[JsonTask], where: str) -> dict[str, int]:
    places = {task.id: i for i, task in enumerate(tasks)}
    named = {each for task in tasks for each in (*task.after, *filter(None, [task.launched_by]))}
    unknown = sorted(named - places.keys())
    if len(places) < len(tasks) or unknown:
        raise CostModelError(
            f"Ids must be unique, and those in after and launched_by must exist, but {where} has "
            f"{len(tasks) - len(places)} twice and {len(unknown)} unknown {unknown[:3]}: correct them."
        )
    return places


def _graph(tasks: list[JsonTask], places: dict[str, int]) -> KernelGraph:
    resources = {task.place: task.kind not in _ON_HOST for task in tasks}
    named = [(task.name or task.id, _class_of(task)) for task in tasks]
    names = list(dict.fromkeys(named))
    scopes = list(dict.fromkeys(["", *(task.scope for task in tasks)]))
    workloads = list(dict.fromkeys(["", *(task.workload for task in tasks)]))
    of_name, of_scope, of_workload, of_resource = (
        {each: i for i, each in enumerate(known)} for known in (names, scopes, workloads, resources)
    )
    return KernelGraph(
        tuple(name for name, _ in names),
        np.array([of_name[each] for each in named], dtype=np.int32),
        np.array([TaskKind[task.kind.upper()] for task in tasks], dtype=np.int8),
        tuple(Resource(name, is_stream) for name, is_stream in resources.items()),
        np.array([of_resource[task.place] for task in tasks], dtype=np.int32),
        np.array([task.duration_s for task in tasks]),
        np.zeros(len(tasks)),
        np.array([task.sms for task in tasks], dtype=np.int32),
        np.array([task.blocks for task in tasks], dtype=np.int64),
        np.array([task.block_warps for task in tasks], dtype=np.int32),
        np.array([task.sm_blocks for task in tasks], dtype=np.int32),
        tuple(scopes),
        np.array([of_scope[task.scope] for task in tasks], dtype=np.int32),
        tuple(workloads),
        np.array([of_workload[task.workload] for task in tasks], dtype=np.int32),
        _dependencies(tasks, places),
        classes=tuple(each for _, each in names),
    )


def _class_of(task: JsonTask) -> KernelClass:
    """What a kernel is, by its workload if it names one, else by its name; nothing of all else."""
    name = task.name or task.id
    if task.kind != "kernel":
        return KernelClass()
    return class_of_workload(Workload.parse(task.workload), name) if task.workload else class_of_name(name)


def _dependencies(tasks: list[JsonTask], places: dict[str, int]) -> Dependencies:
    last: dict[str, int] = {}
    rows: list[tuple[int, int, DependencyKind, float]] = []
    for i, task in enumerate(tasks):
        if task.place in last:
            rows.append((last[task.place], i, DependencyKind.ORDER, task.gap_s))
        last[task.place] = i
        waits = task.kind == "sync"
        kind = DependencyKind.SYNC if waits else DependencyKind.DATA
        rows += [(places[each], i, kind, 0.0) for each in task.after]
        if task.launched_by is not None:
            rows.append((places[task.launched_by], i, DependencyKind.LAUNCH, task.launch_s))
    sources, targets, kinds, lags = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Dependencies.of(sources, targets, kinds, lags, np.array(kinds) == DependencyKind.LAUNCH)
