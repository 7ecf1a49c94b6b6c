"""Events sorted onto the threads and streams that they ran on, with times that can be believed."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs._trace_events import (
    ANNOTATION,
    DEVICE,
    WAIT,
    Event,
    Span,
    clean_text,
    drop_waiting_threads,
    find_processes,
    make_key,
    make_span,
    merge_polls,
    parse_number,
    read_whole,
    role_of,
)

# Nothing runs for so long, and for so many times as long as all else takes: a clock jumped.
_JUMP_S, _JUMP_TIMES = 60.0, 10.0
# A duration is corrupt that is so many times as long as that of others like it, where it contradicts its
# stream, or than all of the trace.
_CORRUPT_TIMES = 10.0
# Kernels of a stream that tell what its kernels take.
_LEAST_OTHERS = 10


@dataclass
class Tracks:
    """Spans by where they ran, each track in the order of their starts.

    Attributes:
        threads: Those of host threads, by process and thread; parents before what they call.
        streams: Those of streams, by process, device and stream.
        waits: Events that say what a call waits for, by correlation.
        flows: Ends of arrows: category, id, whether it is the start, process, thread, time.
        resolution_s: How far clocks may be off by rounding.
    """

    threads: dict[tuple[Hashable, Hashable], list[Span]] = field(default_factory=dict)
    streams: dict[tuple[Hashable, Hashable, Hashable], list[Span]] = field(default_factory=dict)
    waits: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    flows: list[tuple[str, Any, bool, Hashable, Hashable, float]] = field(default_factory=list)
    resolution_s: float = 0.0


def sort_onto_tracks(
    events: Iterable[Event],
    findings: FaultCounts,
    choose: Callable[[list[Span]], list[Span]] = list,
) -> Tracks:
    """Sort the events of a trace; what cannot be placed in time or on a track is counted and left out.

    Args:
        events: Of the trace.
        findings: Counts what is wrong.
        choose: Takes the part of the spans, in the order of their starts, that is wanted.
    """
    tracks, spans = Tracks(), []
    flows, unknown = [], Counter[str]()
    for event in events:
        if event.ph in ("s", "f") and event.cat in ("ac2g", "fwdbwd"):
            flows.append(event)
        elif event.ph == "X":
            role = role_of(event.cat)
            if role is None:
                unknown[clean_text(event.cat)] += 1
            elif role == WAIT:
                correlation = read_whole(event.args.correlation)
                if correlation is not None:
                    tracks.waits[correlation].append(event)
            elif role and (span := make_span(event, role, findings)):
                spans.append(span)
    _tell_unknown(unknown, findings)
    spans.sort(key=lambda span: (span.start, -span.end))
    find_processes(spans)
    spans = choose(merge_polls(drop_waiting_threads(spans, findings), findings))
    tracks.resolution_s = _resolution_s(spans)
    origin = _begin_at_zero(spans, findings)
    tracks.flows = [
        (
            each.cat,
            each.id,
            each.ph == "s",
            make_key(each.pid),
            make_key(each.tid),
            parse_number(each.ts) * 1e-6 - origin,
        )
        for each in flows
    ]
    _place(spans, tracks, findings)
    return tracks


def _tell_unknown(unknown: Counter[str], findings: FaultCounts) -> None:
    if unknown:
        named = ", ".join(f"{count:,} x {name}" for name, count in unknown.most_common(5))
        findings.unknown.append(
            f"{unknown.total():,} events are left out, as their categories are not known: {named}."
        )


def _resolution_s(spans: list[Span]) -> float:
    """A microsecond where all starts are whole ones, as old Kineto writes them; else two nanoseconds."""
    return 1e-6 if all(isinstance(span.event.ts, int) for span in spans) else 2e-9


def _begin_at_zero(spans: list[Span], findings: FaultCounts) -> float:
    """Count times from the first start, without gaps that only a clock that jumped explains."""
    if not spans:
        return 0.0
    starts = np.array([span.start for span in spans])
    work_ends = [span.start if span.category == ANNOTATION else span.end for span in spans]
    ends = np.maximum.accumulate(work_ends)
    idle = np.maximum(starts[1:] - ends[:-1], 0.0)
    rest = ends[-1] - starts[0] - idle[idle > _JUMP_S].sum()
    (jumps,) = np.nonzero(idle > max(_JUMP_S, _JUMP_TIMES * rest))
    findings.add("clock_jump", len(jumps))
    origin = float(starts[0])
    cut_until = np.concatenate([[0.0], np.cumsum(idle[jumps])]) + origin
    ends = np.array([span.end for span in spans])
    begun = starts - cut_until[np.searchsorted(starts[jumps + 1], starts, side="right")]
    ended = ends - cut_until[np.searchsorted(starts[jumps + 1], ends, side="right")]
    ended = np.maximum(begun, ended)
    for span, start, end in zip(spans, begun.tolist(), ended.tolist(), strict=True):
        span.start, span.end = start, end
    return origin


def _place(spans: list[Span], tracks: Tracks, findings: FaultCounts) -> None:
    threads, streams = defaultdict(list), defaultdict(list)
    for span in spans:
        if span.category in DEVICE:
            args = span.event.args
            device, stream = args.device if args.in_device is None else args.in_device, args.stream
            if device is None:
                device = span.event.pid
            if stream is None:
                stream = span.event.tid
            if device is None or stream is None:
                findings.add("malformed")
            else:
                streams[span.process, _numbered(device), _numbered(stream)].append(span)
        else:
            threads[span.thread].append(span)
    tracks.threads = {
        key: each for key, each in threads.items() if any(span.category != ANNOTATION for span in each)
    }
    rest_s = _rest_s(streams.values(), tracks.threads.values())
    for key in sorted(streams, key=lambda key: [(isinstance(part, str), part) for part in key]):
        _bound_last(streams[key], rest_s, findings)
        tracks.streams[key] = _one_at_a_time(streams[key], tracks, findings)


def _numbered(value: Any) -> Hashable:
    found = read_whole(value)
    return make_key(value) if found is None else found


def _rest_s(streams: Iterable[list[Span]], threads: Iterable[list[Span]]) -> float:
    """Seconds of the trace without the last kernels of its streams, whose ends nothing contradicts."""
    ends = [span.end for spans in streams for span in spans[:-1]]
    ends += [spans[-1].start for spans in streams]
    ends += [span.end for spans in threads for span in spans if span.category != ANNOTATION]
    return max(ends, default=0.0)


def _bound_last(spans: list[Span], rest_s: float, findings: FaultCounts) -> None:
    """Give the last kernel of a stream, whose end nothing contradicts, the time of others if it is too long.

    It takes many times as long as those that do the same, and longer than all else of the trace.
    """
    last, took_s = spans[-1], spans[-1].end - spans[-1].start
    if took_s <= rest_s:  # nearly always
        return
    usual = _usual_s(spans[:-1])
    expected = usual.get(_work(last))
    if expected is None and took_s > _CORRUPT_TIMES * rest_s:
        expected = usual.get(None)
    if expected is not None and took_s > _CORRUPT_TIMES * expected:
        findings.add("corrupt_duration")
        last.end = last.start + expected


def _one_at_a_time(spans: list[Span], tracks: Tracks, findings: FaultCounts) -> list[Span]:
    """Let each span of a stream end before the next starts.

    One that is far longer than others that do the same takes what these take: its end is not known, and all
    of the time until the next would be far too much.
    """
    late = [span.end > following.start + tracks.resolution_s for span, following in pairwise(spans)]
    believed = [span for span, is_late in zip(spans, [*late, False], strict=True) if not is_late]
    usual = _usual_s(believed) if len(believed) < len(spans) else {}
    for (span, following), is_late in zip(pairwise(spans), late, strict=True):
        if is_late:
            expected = usual.get(_work(span), usual.get(None, math.inf))
            if span.end - span.start > _CORRUPT_TIMES * expected:
                findings.add("corrupt_duration")
                span.end = span.start + expected
            else:
                inside = following.end <= span.end
                findings.add("runs_inside_another" if inside else "outlasts_successor")
        span.end = min(span.end, following.start)
    return spans


def _work(span: Span) -> Hashable:
    """What kernels have in common that take about as long."""
    return span.name, str(span.event.args.grid), str(span.event.args.block)


def _usual_s(spans: list[Span]) -> dict[Hashable, float]:
    """Median seconds by work, and of all, if there are enough, for None."""
    found = defaultdict[Hashable, list[float]](list)
    for span in spans:
        found[_work(span)].append(span.end - span.start)
    if len(spans) >= _LEAST_OTHERS:
        found[None] = [span.end - span.start for span in spans]
    return {work: median(durations) for work, durations in found.items()}
