"""From a trace to a kernel graph whose replay gives the times that were recorded."""

from pathlib import Path

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.graphs._recorded_graph import (
    Findings,
    RecordedGraph,
    RecordedTimes,
    timed_dependencies,
)
from costmodel.planner.graphs.kineto._events import read_events
from costmodel.planner.graphs.kineto._links import believed, links
from costmodel.planner.graphs.kineto._tasks import Tasks, list_tasks
from costmodel.planner.graphs.kineto._threads import Piece
from costmodel.planner.graphs.kineto._tracks import sort_onto_tracks, spans_within


def read_kineto(path: Path | str, within: str = "") -> RecordedGraph:
    """Read a trace of PyTorch's profiler: Chrome's JSON as written by Kineto, gzipped or not.

    Host calls become tasks named after the innermost call, and the gaps between them are kept. Kernels,
    copies and memsets wait for their launch, for preceding work on their stream, and for events.
    Synchronising calls wait for streams. Errors in the file are counted, and what they concern is not used.

    Args:
        path: File written by ``torch.profiler.profile.export_chrome_trace``.
        within: Annotation of the part of the trace to read, such as ``ProfilerStep*``. Default: the whole
            trace.

    Raises:
        CostModelError: If the file cannot be read, or has no task or no such annotation.
    """
    path, findings = Path(path), Findings()
    trace = read_events(path, findings)
    choose = (lambda spans: spans_within(spans, within)) if within else list
    tracks = sort_onto_tracks(trace.traceEvents, findings, choose)
    tasks = list_tasks(tracks, trace.devices, findings)
    if not tasks.pieces:
        raise CostModelError(
            f"A trace must hold calls of the host or kernels with times, but {path} has none: record it with "
            "ProfilerActivity.CPU and ProfilerActivity.CUDA."
        )
    found = believed(links(tasks, tracks, findings), tasks, tracks.resolution_s, findings)
    return _recorded(tasks, found, findings, len(trace.traceEvents))


def _recorded(
    tasks: Tasks, found: "np.ndarray[tuple[int, int], np.dtype[np.intp]]", findings: Findings, events: int
) -> RecordedGraph:
    """The graph, its tasks in the order of their starts."""
    pieces = tasks.pieces
    starts = np.array([piece.start for piece in pieces])
    ends = np.array([piece.end for piece in pieces])
    by_start = np.lexsort((np.array([piece.called for piece in pieces]), starts))
    rank = np.empty_like(by_start)
    rank[by_start] = np.arange(len(pieces))
    names, name_ids = _coded([piece.name for piece in pieces])
    scopes, scope_ids = _coded(["", *(piece.scope for piece in pieces)])
    is_stream = np.array([each.is_stream for each in tasks.resources])
    workloads, workload_ids = _coded(["", *(_computed(piece) for piece in pieces)])
    called = np.array([piece.called for piece in pieces])[by_start]
    resource_ids = np.array(tasks.resource_ids, dtype=np.int32)[by_start]
    starts, ends = starts[by_start], ends[by_start]
    dependencies, ready_s = timed_dependencies(
        RecordedTimes(starts, ends, called, is_stream[resource_ids]),
        rank[found[:, 0]],
        rank[found[:, 1]],
        found[:, 2],
    )
    graph = KernelGraph(
        names,
        name_ids[by_start],
        np.array([piece.kind for piece in pieces], dtype=np.int8)[by_start],
        tasks.resources,
        resource_ids,
        ends - starts,
        ready_s,
        np.array([piece.sms for piece in pieces], dtype=np.int32)[by_start],
        np.array([piece.blocks for piece in pieces], dtype=np.int64)[by_start],
        np.array([piece.block_warps for piece in pieces], dtype=np.int32)[by_start],
        np.array([piece.sm_blocks for piece in pieces], dtype=np.int32)[by_start],
        scopes,
        scope_ids[1:][by_start],
        workloads,
        workload_ids[1:][by_start],
        dependencies,
    )
    return RecordedGraph(graph, starts, findings.inspection(events, len(graph)))


def _computed(piece: Piece) -> str:
    """Name of the workload of a kernel; empty of all else."""
    return piece.operation.workload if piece.operation and piece.kind == TaskKind.KERNEL else ""


def _coded(texts: list[str]) -> "tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int32]]]":
    """Distinct texts in the order in which they come, and the position of each."""
    places: dict[str, int] = {}
    ids = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int32, len(texts))
    return tuple(places), ids
