"""Spans: events with a name and times that can be believed, and which of them hold up others."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs.traces._events import (
    DEVICE,
    OPERATOR,
    RUNTIME,
    Event,
    is_poll,
    only_looks,
    parse_number,
    read_whole,
)

# Microseconds that a clock shows at most: some 3,000 years.
_MOST_US = 1e17
# Who asks for so long whether work is done waits for it.
_POLLING_S = 50e-6


@dataclass(slots=True)
class Span:
    """An event with a duration; times are seconds since the first of the trace.

    Attributes:
        name: What was called, or ran.
        category: ``OPERATOR`` to ``MEMSET``.
        process: That wrote the event; of a kernel often the number of its GPU.
        start: Seconds.
        end: Seconds.
        correlation: Of a call of the runtime and of what it launched.
        event: The event.
        waits: Whether it stands for calls that asked until work was done.
    """

    name: str
    category: str
    process: Hashable
    start: float
    end: float
    correlation: int | None
    event: Event
    waits: bool = False

    @property
    def thread(self) -> tuple[Hashable, Hashable]:
        """Process and thread."""
        return self.process, make_key(self.event.tid)


def make_span(event: Event, role: str, findings: FaultCounts) -> Span | None:
    """Make the span of an event; None, and counted, if its name or its times cannot be believed."""
    name = clean_text(event.name) if isinstance(event.name, str) else ""
    if not name:
        findings.add("malformed")
        return None
    start, duration = parse_number(event.ts), parse_number(event.dur)
    if not (abs(start) < _MOST_US and abs(duration) < _MOST_US):
        findings.add("unreadable_time")
        return None
    if duration < 0:
        findings.add("negative_duration")
        return None
    correlation = read_whole(event.args.correlation)
    return Span(name, role, make_key(event.pid), start * 1e-6, (start + duration) * 1e-6, correlation, event)


def clean_text(value: Any) -> str:
    """Return a text that can be written: JSON can have halves of characters."""
    return str(value).encode("utf-8", "replace").decode()


def make_key(value: Any) -> Hashable:
    """Return what tells processes, threads and streams apart."""
    return value if isinstance(value, int) else clean_text(value)


def drop_polling_threads(spans: list[Span], findings: FaultCounts) -> list[Span]:
    """Leave out threads that only ask whether work is done, such as watchdogs: their time is no work.

    Nothing waits for them, but their calls would keep the times at which they were made.
    """
    works, polls = set[Hashable](), set[Hashable]()
    for span in spans:
        if span.category == OPERATOR or (span.category == RUNTIME and not only_looks(span.name)):
            works.add(span.thread)
        elif span.category == RUNTIME and is_poll(span.name):
            polls.add(span.thread)
    idle = polls - works
    if idle:
        findings.unknown.append(
            f"{len(idle):,} threads only ask whether work is done: their calls are left out."
        )
    return [span for span in spans if span.category in DEVICE or span.thread not in idle]


def merge_polls(spans: list[Span], findings: FaultCounts) -> list[Span]:
    """Take calls of a thread that ask again and again until work is done for one that waits for it.

    A few calls at once, as of an allocator that looks for memory that is free again, wait for nothing.

    Args:
        spans: In the order of their starts.
        findings: Told how many there are.
    """
    threads = defaultdict[Hashable, list[Span]](list)
    for span in spans:
        if span.category in (OPERATOR, RUNTIME):
            threads[span.thread].append(span)
    done = np.sort([span.end for span in spans if span.category in DEVICE])
    replaced, waits = set[int](), 0
    for calls in threads.values():
        for polls, run in groupby(calls, lambda span: span.category == RUNTIME and is_poll(span.name)):
            several = list(run)
            first, last = several[0], several[-1]
            ended = np.searchsorted(done, [first.start, last.end])
            is_long = len(several) > 1 and last.end - first.start > _POLLING_S
            if polls and is_long and ended[0] < ended[1]:
                last.start, last.waits = first.start, True
                replaced.update(id(span) for span in several[:-1])
                waits += 1
    if waits:
        findings.unknown.append(f"{waits:,} times a thread asks until work is done: that counts as a wait.")
    kept = [span for span in spans if id(span) not in replaced]
    return sorted(kept, key=lambda span: (span.start, -span.end))


def find_processes(spans: list[Span]) -> None:
    """Tell which process launched what ran on a device, if there are several and the event does not say it.

    Calls and kernels of one correlation belong together in the order of their starts.

    Args:
        spans: In the order of their starts.
    """
    calls, launched = defaultdict[int, list[Span]](list), defaultdict[int, list[Span]](list)
    for span in spans:
        if span.correlation is not None and span.category == RUNTIME:
            calls[span.correlation].append(span)
    hosts = {span.process for several in calls.values() for span in several}
    if len(hosts) < 2:
        return
    for span in spans:
        if span.correlation in calls and span.category in DEVICE and span.process not in hosts:
            launched[span.correlation or 0].append(span)
    for correlation, found in launched.items():
        among = calls[correlation]
        for i, span in enumerate(found):
            before = [call for call in among if call.start <= span.start] or among
            span.process = (among[i] if len(among) == len(found) else before[-1]).process
