"""All tasks of a trace in one list: calls of threads, which contain each other, then work of streams."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_graph import Resource, TaskKind
from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs._trace_events import (
    ANNOTATION,
    COPY,
    KERNEL,
    MEMSET,
    OPERATOR,
    RUNTIME,
    DeviceProperties,
    Span,
    Trace,
    is_graph_launch,
    is_launch,
    is_wait,
    read_whole,
)
from costmodel.planner.graphs._trace_kernels import (
    complete_properties,
    find_model,
    find_workload,
    read_launch,
)
from costmodel.planner.graphs._trace_tracks import Tracks
from costmodel.records._platform import Device


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """A call of an operator that computes a workload; each call is another one.

    Attributes:
        workload: Name of the workload.
        within: The one that made the call; None if none did.
    """

    workload: str
    within: "Operation | None"


@dataclass(slots=True)
class Piece:
    """What a call did itself between two that it made; for a stream, a whole kernel or copy.

    Attributes:
        name: Of the call.
        kind: What it is.
        start: Seconds; for a wait, when it was over.
        end: Seconds.
        called: When the thread came to it: ``start`` but for a wait.
        scope: The innermost annotation around it.
        blocks: Of a kernel's grid; 0 if nobody knows.
        block_warps: Warps of one of them; 0 if nobody knows.
        sm_blocks: Blocks that an SM holds at once; 0 if nobody knows.
        sms: Of the device that it ran on; 0 if nobody knows.
        operation: Of the innermost call around it that computes a workload; for a stream, what the kernel
            computes; None if nobody knows.
        operator: The innermost operator around it; for a stream, the one that launched it.
        group: Of a collective, the processes that do it together, by their name and ranks; else empty.
    """

    name: str
    kind: TaskKind
    start: float
    end: float
    called: float
    scope: str = ""
    blocks: int = 0
    block_warps: int = 0
    sm_blocks: int = 0
    sms: int = 0
    operation: "Operation | None" = None
    operator: Span | None = None
    group: str = ""


class Correlated:
    """Spans by their correlations, which processes number alike.

    Args:
        spans: Of each process that has several of one correlation, the first counts.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        self._found: dict[int, list[Span]] = defaultdict(list)
        for span in spans:
            if span.correlation is not None:
                self._found[span.correlation].append(span)

    def find(self, other: Span) -> Span | None:
        """Find the span with the correlation of another: of its process if there is one, else the nearest."""
        found = self._found.get(other.correlation, []) if other.correlation is not None else []
        among = [each for each in found if each.process == other.process] or found
        return min(among, key=lambda each: abs(each.start - other.start), default=None)


@dataclass
class Thread:
    """A host thread as tasks one after the other.

    Attributes:
        pieces: The tasks.
        of_call: First and last piece of each call that is not an annotation, with the call.
    """

    pieces: list[Piece] = field(default_factory=list)
    of_call: list[tuple[Span, int, int]] = field(default_factory=list)


# PyTorch's attention where no single kernel can do it; its parts are one scope, within an annotation if any.
ATTENTION_IN_PARTS = "aten::_scaled_dot_product_attention_math"


@dataclass(slots=True)
class _Open:
    """A call that has not ended yet."""

    span: Span
    since: float
    first: int
    scope: str
    operation: Operation | None
    operator: Span | None
    made: Span | None

    @property
    def kind(self) -> TaskKind:
        """What the call is."""
        if self.span.category != RUNTIME:
            return TaskKind.HOST
        if self.span.waits or is_wait(self.span.name):
            return TaskKind.SYNC
        return TaskKind.LAUNCH if self.made or is_launch(self.span.name) else TaskKind.HOST


def split_calls(
    spans: list[Span], launched: Correlated, resolution_s: float, findings: FaultCounts
) -> Thread:
    """Split the calls of a thread into tasks: each call but for what it called, named after it.

    A call that copies and returns once that is done is two tasks: one launches the copy, one waits for it.

    Args:
        spans: Its calls and annotations, by start, parents before what they call.
        launched: What ran on streams.
        resolution_s: How far an end may lie behind that of the parent by rounding.
        findings: Counts calls that end behind the end of what called them.
    """
    thread, stack = Thread(), list[_Open]()
    for span in spans:
        for opened in _ended(stack, span.start):
            _close(opened, stack, thread, launched)
        if stack:
            parent = stack[-1]
            if span.end > parent.span.end:
                findings.add("crosses_on_thread", span.end > parent.span.end + resolution_s)
                span.end = parent.span.end
            _emit(parent, span.start, thread)
        scope = span.name if span.category == ANNOTATION else stack[-1].scope if stack else ""
        if span.name == ATTENTION_IN_PARTS:  # which stays part of what its author has named
            scope = f"{scope}/{span.name}" if scope else span.name
        workload = find_workload(span.name, span.event.args)
        around = stack[-1].operation if stack else None
        operation = Operation(workload, around) if workload else around
        operator = span if span.category == OPERATOR else stack[-1].operator if stack else None
        made = launched.find(span) if span.category == RUNTIME else None
        stack.append(_Open(span, span.start, len(thread.pieces), scope, operation, operator, made))
    for opened in _ended(stack, float("inf")):
        _close(opened, stack, thread, launched)
    return thread


def _ended(stack: list[_Open], until: float) -> Iterator[_Open]:
    """Calls that end until a time, taken from the stack, the innermost first."""
    while stack and stack[-1].span.end <= until:
        yield stack.pop()


def _close(opened: _Open, stack: list[_Open], thread: Thread, launched: Correlated) -> None:
    span = opened.span
    alone = len(thread.pieces) == opened.first
    copy = opened.made if alone and opened.made and opened.made.category == COPY else None
    if copy and span.start <= copy.start and copy.end <= span.end:
        # From here to the copy's start is latency or the stream's queue, which are told apart later.
        _emit(opened, span.start, thread, even_empty=True)
        wait = Piece(span.name, TaskKind.SYNC, copy.end, span.end, span.start, opened.scope)
        thread.pieces.append(wait)
    else:
        _emit(opened, span.end, thread, even_empty=alone and span.category != ANNOTATION)
    if span.category != ANNOTATION:
        thread.of_call.append((span, opened.first, len(thread.pieces) - 1))
    if stack:
        stack[-1].since = span.end


def _emit(opened: _Open, until: float, thread: Thread, *, even_empty: bool = False) -> None:
    """Add what a call did itself until a time; an annotation does nothing."""
    start, opened.since = opened.since, until
    if opened.span.category != ANNOTATION and (until > start or even_empty):
        piece = Piece(opened.span.name, opened.kind, start, until, start, opened.scope)
        piece.operation, piece.operator = opened.operation, opened.operator
        thread.pieces.append(piece)


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
        ends_s: ``(spans,)`` when each ends, before the next starts.
    """

    process: Hashable
    device: Hashable
    number: Hashable
    spans: list[Span]
    first: int
    launched_s: FloatArray
    ends_s: FloatArray

    def last_before(self, time: float) -> int | None:
        """Find the last task that was launched before a time."""
        found = int(np.searchsorted(self.launched_s, time, side="left")) - 1
        return None if found < 0 else self.first + found

    def last_ended(self, launched_s: float, ended_s: float) -> int | None:
        """Find the last task that was launched before a time, and had ended at another."""
        last = self.last_before(launched_s)
        ended = int(np.searchsorted(self.ends_s, ended_s, side="right")) - 1
        return None if last is None or ended < 0 else min(last, self.first + ended)

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
        launched_s, ends_s = _launched(len(spans), base, linked), np.array([span.end for span in spans])
        streams.append(Stream(owner, device, number, spans, base, launched_s, ends_s))
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
    if kind == TaskKind.KERNEL and span.event.args.collective is not None:
        piece.group = f"{span.event.args.group} {span.event.args.group_ranks}"
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
