"""All tasks of a trace in one list: those of threads, then those of streams."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_graph import Resource, TaskKind
from costmodel.planner.graphs._recorded_graph import Findings
from costmodel.planner.graphs.kineto._events import (
    RUNTIME,
    DeviceProperties,
    is_graph_launch,
    is_launch,
    whole,
)
from costmodel.planner.graphs.kineto._kernel_facts import launch_of
from costmodel.planner.graphs.kineto._threads import Operation, Piece, Thread, flatten
from costmodel.planner.graphs.kineto._tracks import Span, Tracks

_KINDS = {"kernel": TaskKind.KERNEL, "gpu_memcpy": TaskKind.COPY, "gpu_memset": TaskKind.MEMSET}


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
        device: Number of the GPU.
        number: Of the stream.
        spans: Its kernels, copies and memsets.
        first: Task of the first span; the others follow.
        launched_s: ``(spans,)`` start of the latest launch up to each; minus infinity before the first.
    """

    device: int
    number: int
    spans: list[Span]
    first: int
    launched_s: FloatArray

    def last_before(self, time: float) -> int | None:
        """The last task that was launched before a time."""
        found = int(np.searchsorted(self.launched_s, time, side="left")) - 1
        return None if found < 0 else self.first + found

    def first_after(self, time: float) -> int | None:
        """The first task that was launched after a time."""
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
        calls: Calls of CUDA by correlation.
        launches: Pairs of call and task that it launched.
    """

    pieces: list[Piece]
    resources: tuple[Resource, ...]
    resource_ids: list[int]
    threads: "list[ThreadTasks]"
    streams: list[Stream]
    calls: dict[int, Call]
    launches: list[tuple[Call, int]]


@dataclass(frozen=True)
class ThreadTasks:
    """Tasks ``first`` to ``last`` of one thread, and its calls."""

    key: Any
    first: int
    last: int
    calls: list[Call]


def list_tasks(tracks: Tracks, devices: Mapping[int, DeviceProperties], findings: Findings) -> Tasks:
    """The tasks of threads and streams, and which call launched which; GPUs by their numbers."""
    copies = _copies(tracks)
    pieces, resources, resource_ids = list[Piece](), list[Resource](), list[int]()
    threads = []
    for (process, thread), spans in tracks.threads.items():
        found: Thread = flatten(spans, copies, tracks.resolution_s, findings)
        base = len(pieces)
        calls = [Call(span, base + first, base + last) for span, first, last in found.of_call]
        resource_ids += [len(resources)] * len(found.pieces)
        resources.append(Resource(f"process {process} thread {thread}", is_stream=False))
        pieces += found.pieces
        threads.append(ThreadTasks((process, thread), base, len(pieces) - 1, calls))
    calls_of_cuda = _by_correlation([call for thread in threads for call in thread.calls], findings)
    launches, streams = list[tuple[Call, int]](), []
    for (device, number), spans in tracks.streams.items():
        base = len(pieces)
        linked = _launches(spans, base, calls_of_cuda, findings)
        launches += linked
        scopes = {task: pieces[call.first].scope for call, task in linked}
        properties = devices.get(device, DeviceProperties())
        pieces += [_device_piece(span, scopes.get(base + i, ""), properties) for i, span in enumerate(spans)]
        resource_ids += [len(resources)] * len(spans)
        resources.append(Resource(f"GPU {device} stream {number}", is_stream=True))
        streams.append(Stream(device, number, spans, base, _launched(len(spans), base, linked)))
    _name_operations(pieces, launches)
    launching = {call.first for call, _ in launches}
    findings.add(
        "missing_kernel",
        sum(is_launch(call.span.name) and call.first not in launching for call in calls_of_cuda.values()),
    )
    return Tasks(pieces, tuple(resources), resource_ids, threads, streams, calls_of_cuda, launches)


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


def _copies(tracks: Tracks) -> dict[int, Span]:
    return {
        span.correlation: span
        for spans in tracks.streams.values()
        for span in spans
        if span.category == "gpu_memcpy" and span.correlation is not None
    }


def _device_piece(span: Span, scope: str, device: DeviceProperties) -> Piece:
    kind = _KINDS[span.category]
    of_kernel = (*launch_of(span.event.args, device), device.num_sms) if kind == TaskKind.KERNEL else ()
    return Piece(span.name, kind, span.start, span.end, span.start, scope, *of_kernel)


def _by_correlation(calls: list[Call], findings: Findings) -> dict[int, Call]:
    """Calls of CUDA; of one of the runtime and the driver's within it, which may share theirs, the latter."""
    found: dict[int, Call] = {}
    for call in calls:  # those that they make come first
        correlation = call.span.correlation
        if call.span.category in RUNTIME and correlation is not None:
            first = found.setdefault(correlation, call)
            within = call.span.start <= first.span.start and first.span.end <= call.span.end
            findings.add("duplicate_correlation", not within)
    return found


def _launches(
    spans: list[Span], base: int, calls: dict[int, Call], findings: Findings
) -> list[tuple[Call, int]]:
    """The call that launched each task of a stream, where it is known."""
    found, taken = [], Counter[int]()
    for task, span in enumerate(spans, base):
        call = calls.get(span.correlation) if span.correlation is not None else None
        if call is None:
            of_graph = (whole(span.event.args.graph_node_id) or 0) > 0
            findings.add("graph_without_launch" if of_graph else "missing_launch")
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
