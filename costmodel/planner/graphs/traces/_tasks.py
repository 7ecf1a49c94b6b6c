"""All tasks of a trace in one list: those of threads, then those of streams."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_graph import Resource, TaskKind
from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs.traces._events import (
    COPY,
    KERNEL,
    MEMSET,
    RUNTIME,
    DeviceProperties,
    Trace,
    is_graph_launch,
    is_launch,
    read_whole,
)
from costmodel.planner.graphs.traces._kernel_facts import complete_properties, find_model, read_launch
from costmodel.planner.graphs.traces._spans import Span
from costmodel.planner.graphs.traces._threads import Correlated, Operation, Piece, Thread, split_calls
from costmodel.planner.graphs.traces._tracks import Tracks
from costmodel.records._platform import Device

_KINDS = {KERNEL: TaskKind.KERNEL, COPY: TaskKind.COPY, MEMSET: TaskKind.MEMSET}


@dataclass(frozen=True)
class Call:
    """A call of a host thread: its span and the first and last of its tasks."""

    span: Span
    first: int
    last: int


@dataclass(frozen=True)
class Stream:
    """A stream: device and number, its spans, and when the host launched each.

    Attributes:
        process: Of the calls that launched its tasks; None if nobody knows.
        device: Number of the GPU.
        number: Of the stream.
        spans: Its kernels, copies and memsets.
        first: Task of the first span; the others follow.
        launched_s: ``(spans,)`` start of the latest launch up to each; minus infinity before the first.
    """

    process: Hashable
    device: Hashable
    number: Hashable
    spans: list[Span]
    first: int
    launched_s: FloatArray

    def last_before(self, time: float) -> int | None:
        """Find the last task that was launched before a time."""
        found = int(np.searchsorted(self.launched_s, time, side="left")) - 1
        return None if found < 0 else self.first + found

    def first_after(self, time: float) -> int | None:
        """Find the first task that was launched after a time."""
        found = int(np.searchsorted(self.launched_s, time, side="right"))
        return None if found == len(self.spans) else self.first + found


@dataclass(frozen=True)
class Tasks:
    """Tasks and what is known of them.

    Attributes:
        pieces: The tasks.
        resources: Threads and streams.
        resource_ids: Resource of each task.
        threads: First task of each thread, with its key and its calls.
        streams: The streams.
        calls: Calls of the runtime, one for each process and correlation.
        launches: Pairs of call and task that it launched.
        device: That kernels ran on; None if nobody knows, or if there are several kinds.
    """

    pieces: list[Piece]
    resources: tuple[Resource, ...]
    resource_ids: list[int]
    threads: "list[ThreadTasks]"
    streams: list[Stream]
    calls: dict[tuple[Hashable, int], Call]
    launches: list[tuple[Call, int]]
    device: Device | None


@dataclass(frozen=True)
class ThreadTasks:
    """Tasks ``first`` to ``last`` of one thread, and its calls."""

    key: Any
    first: int
    last: int
    calls: list[Call]


def list_tasks(tracks: Tracks, trace: Trace, findings: FaultCounts) -> Tasks:
    """List the tasks of threads and streams, and which call launched which."""
    on_device = Correlated(span for spans in tracks.streams.values() for span in spans)
    pieces, resources, resource_ids = list[Piece](), list[Resource](), list[int]()
    threads = []
    for (process, thread), spans in tracks.threads.items():
        found: Thread = split_calls(spans, on_device, tracks.resolution_s, findings)
        base = len(pieces)
        calls = [Call(span, base + first, base + last) for span, first, last in found.of_call]
        resource_ids += [len(resources)] * len(found.pieces)
        resources.append(Resource(f"process {process} thread {thread}", is_stream=False))
        pieces += found.pieces
        threads.append(ThreadTasks((process, thread), base, len(pieces) - 1, calls))
    runtime = _by_correlation([call for thread in threads for call in thread.calls], findings)
    launches, streams = list[tuple[Call, int]](), []
    several = len({process for process, *_ in tracks.streams}) > len(
        {device for _, device, _ in tracks.streams}
    )
    for (process, device, number), spans in tracks.streams.items():
        base = len(pieces)
        linked = _launches(spans, base, runtime, findings)
        launches += linked
        launched_by = {task: pieces[call.first] for call, task in linked}
        properties = complete_properties(trace.device(device))
        pieces += [_device_piece(span, launched_by.get(base + i), properties) for i, span in enumerate(spans)]
        resource_ids += [len(resources)] * len(spans)
        of_process = f"process {process} " if several else ""
        resources.append(Resource(f"{of_process}GPU {device} stream {number}", is_stream=True))
        owners = Counter(call.span.process for call, _ in linked).most_common(1)
        owner = owners[0][0] if owners else None
        streams.append(Stream(owner, device, number, spans, base, _launched(len(spans), base, linked)))
    _name_operations(pieces, launches)
    launching = {call.first for call, _ in launches}
    findings.add(
        "missing_kernel",
        sum(is_launch(call.span.name) and call.first not in launching for call in runtime.values()),
    )
    device = _common_device(tracks, trace, findings)
    return Tasks(pieces, tuple(resources), resource_ids, threads, streams, runtime, launches, device)


def _common_device(tracks: Tracks, trace: Trace, findings: FaultCounts) -> Device | None:
    """The model of the GPUs that ran kernels."""
    found = {
        trace.device(device)
        for (_, device, _), spans in tracks.streams.items()
        if any(span.category == KERNEL for span in spans)
    }
    if len({(each.name, each.num_sms) for each in found}) > 1:
        findings.unknown.append(
            f"Kernels ran on {len(found)} kinds of GPUs: what-ifs that need to know the GPU cannot be asked."
        )
        return None
    return find_model(found.pop()) if found else None


def _name_operations(pieces: list[Piece], launches: list[tuple[Call, int]]) -> None:
    """Tell kernels what they compute: those of operators that launched no other, by themselves or others."""
    made, counts = dict[int, Operation](), Counter[Operation]()
    for call, task in launches:
        operation = pieces[call.first].operation
        if operation is not None and pieces[task].kind == TaskKind.KERNEL:
            made[task] = operation
            while operation is not None:
                counts[operation] += 1
                operation = operation.within
    for task, operation in made.items():
        if counts[operation] == 1:
            pieces[task].operation = operation


def _device_piece(span: Span, launch: Piece | None, device: DeviceProperties) -> Piece:
    kind = _KINDS[span.category]
    of_kernel = (*read_launch(span.event.args, device), device.num_sms) if kind == TaskKind.KERNEL else ()
    scope, operator = (launch.scope, launch.operator) if launch else ("", None)
    piece = Piece(span.name, kind, span.start, span.end, span.start, scope, *of_kernel)
    piece.operator = operator
    return piece


def _by_correlation(calls: Iterable[Call], findings: FaultCounts) -> dict[tuple[Hashable, int], Call]:
    """Calls of the runtime; of one and the driver's within it, which may share a correlation, the latter."""
    found: dict[tuple[Hashable, int], Call] = {}
    for call in calls:  # those that they make come first
        correlation = call.span.correlation
        if call.span.category == RUNTIME and correlation is not None:
            first = found.setdefault((call.span.process, correlation), call)
            within = call.span.start <= first.span.start and first.span.end <= call.span.end
            findings.add("duplicate_correlation", not within)
    return found


def _launches(
    spans: list[Span], base: int, calls: dict[tuple[Hashable, int], Call], findings: FaultCounts
) -> list[tuple[Call, int]]:
    """The call that launched each task of a stream, where it is known; nothing is missing without a host."""
    found, taken = [], Counter[int]()
    known = Correlated(call.span for call in calls.values())
    for task, span in enumerate(spans, base):
        made = known.find(span)
        call = calls[made.process, made.correlation or 0] if made else None
        if call is None:
            of_graph = (read_whole(span.event.args.graph_node_id) or 0) > 0
            findings.add("graph_without_launch" if of_graph else "missing_launch", bool(calls))
        elif taken[call.first] and not is_graph_launch(call.span.name):
            findings.add("duplicate_correlation")
        else:
            taken[call.first] += 1
            found.append((call, task))
    return found


def _launched(n: int, base: int, linked: list[tuple[Call, int]]) -> FloatArray:
    times = np.full(n, -np.inf)
    times[[task - base for _, task in linked]] = [call.span.start for call, _ in linked]
    return np.maximum.accumulate(times) if n else times
