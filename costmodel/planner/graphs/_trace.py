"""From a trace to a kernel graph whose replay gives the times that were recorded."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from costmodel.errors import CostModelError, shorten
from costmodel.planner.graphs._kernel_class import KernelClass, KernelKind, class_of_call
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.graphs._recorded_graph import (
    FaultCounts,
    RecordedGraph,
    RecordedTimes,
    timed_dependencies,
)
from costmodel.planner.graphs._trace_events import ANNOTATION, DEVICE, OPERATOR, RUNTIME, Span, role_of
from costmodel.planner.graphs._trace_files import read_trace
from costmodel.planner.graphs._trace_links import find_links, keep_believed
from costmodel.planner.graphs._trace_tasks import Piece, Tasks, list_tasks
from costmodel.planner.graphs._trace_tracks import sort_onto_tracks
from costmodel.threads import collecting_nothing

T = TypeVar("T", bound=Hashable)


def read_kineto(path: Path | str, within: str = "") -> RecordedGraph:
    """Read a trace of PyTorch's profiler: Chrome's JSON as written by Kineto, gzipped or not.

    Host calls become tasks named after the innermost call, and the gaps between them are kept. Kernels,
    copies and memsets wait for their launch, for preceding work on their stream, and for events.
    Synchronising calls wait for streams. Errors in the file are counted, and what they concern is not used.

    Args:
        path: File written by ``torch.profiler.profile.export_chrome_trace``.
        within: Annotation of the part of the trace to read, such as ``ProfilerStep*``, or ``step#3`` for
            the third that is called ``step``. Default: the whole trace.

    Raises:
        CostModelError: If the file cannot be read, or has no task or no such annotation.
    """
    with collecting_nothing():
        return _read(Path(path), within)


def _read(path: Path, within: str) -> RecordedGraph:
    findings = FaultCounts()
    trace = read_trace(path, findings)
    choose = (lambda spans: spans_within(spans, within, findings)) if within else list
    tracks = sort_onto_tracks(trace.events, findings, choose)
    tasks = list_tasks(tracks, trace, findings)
    if not tasks.pieces:
        found_wrong = "; ".join(findings.inspection(len(trace.events), 0).sentences())
        raise CostModelError(
            f"A trace must hold calls of the host or kernels with times, but {path} has none: record it with "
            f"ProfilerActivity.CPU and ProfilerActivity.CUDA. {found_wrong}".rstrip()
        )
    found = keep_believed(find_links(tasks, tracks, findings), tasks, tracks.resolution_s, findings)
    recorded = _recorded(tasks, found, findings, len(trace.events))
    return replace(recorded, rank=trace.rank, world_size=trace.world_size)


def _recorded(
    tasks: Tasks, found: "np.ndarray[tuple[int, int], np.dtype[np.intp]]", findings: FaultCounts, events: int
) -> RecordedGraph:
    """The graph, its tasks in the order of their starts."""
    pieces = tasks.pieces
    starts = np.array([piece.start for piece in pieces])
    ends = np.array([piece.end for piece in pieces])
    by_start = np.lexsort((np.array([piece.called for piece in pieces]), starts))
    rank = np.empty_like(by_start)
    rank[by_start] = np.arange(len(pieces))
    named, name_ids = _coded([(piece.name, _class_of(piece), _operator(piece)) for piece in pieces])
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
        tuple(name for name, _, _ in named),
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
        classes=tuple(each for _, each, _ in named),
        operators=tuple(operator for _, _, operator in named),
        device=tasks.device,
    )
    _tell_unknown(graph, findings)
    groups = {int(rank[i]): piece.group for i, piece in enumerate(pieces) if piece.group}
    return RecordedGraph(graph, starts, findings.inspection(events, len(graph)), groups=groups)


def _computed(piece: Piece) -> str:
    """Name of the workload of a kernel; empty of all else."""
    return piece.operation.workload if piece.operation and piece.kind == TaskKind.KERNEL else ""


def _class_of(piece: Piece) -> KernelClass:
    """What a kernel is, by the operator that launched it and its name; nothing of all else."""
    if piece.kind != TaskKind.KERNEL:
        return KernelClass()
    types = piece.operator.event.args.input_type if piece.operator else None
    return class_of_call(piece.name, _operator(piece), types if isinstance(types, list) else ())


def _operator(piece: Piece) -> str:
    """Name of the operator that launched a kernel; empty of all else, and if only annotations did."""
    if piece.operator is None or piece.kind != TaskKind.KERNEL:
        return ""
    return "" if role_of(piece.operator.event.cat) == ANNOTATION else piece.operator.name


def _tell_unknown(graph: KernelGraph, findings: FaultCounts) -> None:
    """Say which kernels are of no kind that is known."""
    kernels = graph.of_kind(TaskKind.KERNEL)
    unknown = np.flatnonzero(kernels & (graph.kernel_kinds == KernelKind.UNKNOWN))
    if len(unknown):
        counts = Counter(graph.name(task) for task in unknown.tolist())
        named = ", ".join(f"{count:,} x {shorten(name)}" for name, count in counts.most_common(3))
        share = graph.durations_s[unknown].sum() / (graph.durations_s[kernels].sum() or 1.0)
        findings.unknown.append(
            f"{len(unknown):,} kernels of {len(counts):,} names, {share:.0%} of the time of kernels, are of "
            f"no kind that is known by operator or name, and are taken to move data: {named}."
        )


def _coded(values: "list[T]") -> "tuple[tuple[T, ...], np.ndarray[tuple[int], np.dtype[np.int32]]]":
    """Distinct values in the order in which they come, and the position of each."""
    places: dict[T, int] = {}
    ids = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int32, len(values))
    return tuple(places), ids


def spans_within(spans: list[Span], name: str, findings: FaultCounts) -> list[Span]:
    """Take the calls within annotations of a name, and what they launched; annotations count as calls.

    So the time of the host before the first call of a step is part of the step. It ends with its last call:
    what an annotation takes to end is the profiler's own (7 to 100 us on an H100). Of threads without such an
    annotation those count that launch something meanwhile: nothing of the step depends on the others.

    Args:
        spans: Of all tracks, by start.
        name: See ``_find_windows``.
        findings: Told how many threads have no part in it.

    Raises:
        CostModelError: No annotation has the name.
    """
    windows = _find_windows(spans, name)
    _end_with_their_calls(windows, spans)
    for window in windows:
        window.category = OPERATOR
    inside = _of_threads_that_launch(spans, _inside(spans, windows), windows, findings)
    launched_inside: dict[object, bool] = {}
    for span, is_inside in zip(spans, inside, strict=True):
        if span.category not in DEVICE and span.correlation is not None:
            launched_inside[span.correlation] = launched_inside[span.process, span.correlation] = is_inside

    def belongs(span: Span, is_inside: bool) -> bool:
        if span.category not in DEVICE:
            return is_inside
        by_any = launched_inside.get(span.correlation, is_inside)
        return launched_inside.get((span.process, span.correlation), by_any)

    return [span for span, is_inside in zip(spans, inside, strict=True) if belongs(span, is_inside)]


def _find_windows(spans: Iterable[Span], name: str) -> list[Span]:
    """Find the annotations of a name.

    Or of a pattern, in which ``*`` and ``?`` stand for any characters; and with ``#3`` behind either, the
    third. Brackets and commas are parts of names.

    Raises:
        CostModelError: There is none, or there are fewer.
    """
    annotations = [span for span in spans if span.category == ANNOTATION]
    found = _named(annotations, name)
    of_all, _, number = name.rpartition("#")
    if not found and of_all and number.isdecimal():
        several = _named(annotations, of_all)
        found = several[int(number) - 1 : int(number)] if int(number) else []
        if several and not found:
            raise CostModelError(
                f"The number behind # must be one of 1 to {len(several):,}, as there are so many annotations "
                f"{shorten(of_all)!r}, but got {number!r}."
            )
    if not found:
        names = list(dict.fromkeys(span.name for span in annotations))
        raise CostModelError(
            f"An annotation of the trace must have the name {shorten(name)!r}, but there are {names[:8]}: "
            "name one, or record the step within torch.profiler.record_function."
        )
    return found


def _named(annotations: list[Span], name: str) -> list[Span]:
    literal = [span for span in annotations if span.name == name]
    pattern = re.escape(name).replace(r"\*", ".*").replace(r"\?", ".")
    return literal or [span for span in annotations if re.fullmatch(pattern, span.name, re.DOTALL)]


def _of_threads_that_launch(
    spans: list[Span], inside: list[bool], windows: list[Span], findings: FaultCounts
) -> list[bool]:
    """Of what lies within the windows, leave out threads that have no window and launch nothing."""
    launched = {span.correlation for span in spans if span.category in DEVICE} - {None}
    own = {window.thread for window in windows}
    threads = {each.thread for each, within in zip(spans, inside, strict=True) if within}
    taking_part = own | {
        span.thread
        for span, within in zip(spans, inside, strict=True)
        if within and span.category == RUNTIME and span.correlation in launched
    }
    of_host = {span.thread for span in spans if span.category not in DEVICE}
    others = len((threads & of_host) - taking_part)
    if others:
        findings.unknown.append(
            f"{others:,} threads launch nothing within the annotation: nothing depends on their calls, "
            "which are left out."
        )
    return [
        within and (span.category in DEVICE or span.thread in taking_part)
        for span, within in zip(spans, inside, strict=True)
    ]


def _end_with_their_calls(windows: list[Span], spans: list[Span]) -> None:
    """Let annotations end with the last call of their thread within them, if there is one."""
    chosen = {id(window) for window in windows}
    calls = [span for span in spans if span.category not in DEVICE and id(span) not in chosen]
    starts = np.array([span.start for span in calls])
    ends = np.array([span.end for span in calls])
    threads = np.array([hash(span.thread) for span in calls])
    for window in windows:
        own = threads == hash(window.thread)
        within = own & (window.start <= starts) & (ends <= window.end)
        window.end = float(ends[within].max()) if within.any() else window.end


def _inside(spans: list[Span], windows: list[Span]) -> list[bool]:
    """Tell whether each span lies within one of the windows."""
    starts = np.array([span.start for span in spans])
    ends = np.array([span.end for span in spans])
    found = np.zeros(len(spans), dtype=bool)
    for window in windows:
        found |= (window.start <= starts) & (ends <= window.end)
    return list(found.tolist())
