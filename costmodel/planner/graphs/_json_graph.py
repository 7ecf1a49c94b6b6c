"""Kernel graphs of one's own: in JSON, or as Relax modules, whose calls have no time recorded."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from costmodel.planner.graphs._recorded_graph import Inspection, RecordedGraph
from costmodel.products._model import meant_gpu
from costmodel.reading import Finite, Whole32, detect, is_file, read_json
from costmodel.records._device_table import find_device
from costmodel.records._workload import Workload
from costmodel.report._progress import track
from costmodel.workloads._programs import ModuleCall, calls_of, read_calls

if TYPE_CHECKING:
    from costmodel.planner._latencies import KernelLatency, Latencies


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
        graph.assuming(device=find_device(meant_gpu(found.device))) if found.device else graph
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


_STREAM = "stream 0"


def is_module_place(place: str) -> bool:
    """Tell whether a text names a module in a file: ``program.py:module``, or JSON that TVM wrote.

    Of JSON its first key tells: a trace, which is JSON too, may be as large as the memory.
    """
    path = Path(place)
    if ".py:" in place or path.suffix != ".json" or not is_file(path):
        return ".py:" in place
    found = detect(path)
    return found is not None and found.key == "tvm-program"


def read_relax(module: Any, latencies: "Latencies | None" = None, *, sms: int | None = None) -> RecordedGraph:
    """Read a kernel graph from a Relax module: each call becomes a kernel of one stream with its inputs.

    A kernel takes the recorded or predicted latency of the best known kernel of its workload on this number
    of SMs. If its workload is not an operator, a roofline gives the latency.

    Args:
        module: ``program.py:module``, ``program.py:module:function``, JSON of ``tvm.ir.save_json``, or a
            ``tvm.IRModule``. It is fused as Relax fuses it.
        latencies: Source of latencies. Default: ``open_latencies()``.
        sms: Number of SMs of the kernels. Default: the whole device.

    Raises:
        CostModelError: If there is no such module, it calls no kernel, or the device has fewer SMs.
        MissingExtraError: If TVM is not installed.
    """
    from costmodel.planner._latencies import open_latencies

    calls = read_calls(str(module)) if isinstance(module, Path | str) else calls_of(module)
    if not calls:
        raise CostModelError(f"A Relax module must call a kernel, but {module} calls none. Name another one.")
    known = open_latencies() if latencies is None else latencies
    on = known.on_device(sms)
    took = [_took(call, known, on) for call in track(calls, "latencies", len(calls))]
    tasks = [
        JsonTask(
            id=f"{i} {call.name}",
            duration_s=best.latency_s,
            name=call.workload.name if _is_operator(call) and call.workload else call.name,
            resource=_STREAM,
            after=[f"{each} {calls[each].name}" for each in call.after],
            sms=on,
            workload=call.workload.name if call.workload else "",
        )
        for i, (call, (_, best)) in enumerate(zip(calls, took, strict=True))
    ]
    graph = graph_of(tasks, "the module").assuming(*_sentences(calls, took, known, on), device=known.device)
    return RecordedGraph.unrecorded(graph, _inspection(calls))


def _took(call: ModuleCall, known: "Latencies", sms: int) -> "tuple[str, KernelLatency]":
    """Where the latency of a call comes from, and what it is."""
    from costmodel.planner._latencies import KernelLatency, RooflineLatencies

    table = known.kernels(call.workload) if call.workload else None
    best = table.best(sms) if table else None
    if table and best:
        return table.origin, best
    seconds = RooflineLatencies(known.device).moving_s(sms, call.moved_bytes)
    return "estimated", KernelLatency("", seconds, seconds, seconds)


def _is_operator(call: ModuleCall) -> bool:
    return call.workload is not None and not call.workload.is_program


def _inspection(calls: list[ModuleCall]) -> Inspection:
    """What of the calls is no operator, with counts."""
    others = Counter(call.name for call in calls if not _is_operator(call))
    named = ", ".join(f"{count} x {name}" for name, count in others.most_common())
    said = f"{others.total()} of {len(calls)} calls are of no operator that is known: {named}."
    return Inspection(len(calls), len(calls), {}, (said,) if others else ())


def _sentences(
    calls: list[ModuleCall], took: "list[tuple[str, KernelLatency]]", known: "Latencies", sms: int
) -> list[str]:
    """What the latencies are, one sentence an origin."""
    found = []
    said = {
        "recorded": "what was recorded of their best kernel",
        "predicted": "what a model predicts of the best kernel of a pool",
        "estimated": "a start and what a roofline says",
    }
    for origin, what in said.items():
        of = [(call, best) for call, (from_, best) in zip(calls, took, strict=True) if from_ == origin]
        if of:
            us = [
                1e6 * sum(getattr(best, f"{end}_s") for _, best in of) for end in ("latency", "low", "high")
            ]
            between = f"; the ends of their 90 % intervals add up to {us[1]:,.1f} and {us[2]:,.1f} us"
            found.append(
                f"{len(of)} calls of {len({call.name for call, _ in of})} kernels take {what} on {sms} SMs "
                f"of {known.device.name}: {us[0]:,.1f} us{between if us[1] < us[2] else ''}."
            )
    return [*found, "Kernels follow each other on one stream without gaps but what latencies hold."]
