"""Calls of a host thread, which contain each other, as tasks one after the other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from costmodel.planner.graphs._kernel_graph import TaskKind
from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs.traces._events import ANNOTATION, COPY, OPERATOR, RUNTIME, is_launch, is_wait
from costmodel.planner.graphs.traces._kernel_facts import find_workload
from costmodel.planner.graphs.traces._spans import Span


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
