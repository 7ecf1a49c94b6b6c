"""Events sorted onto the threads and streams that they ran on, with times that can be believed."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs._recorded_graph import Findings
from costmodel.planner.graphs.kineto._events import ANNOTATION, DEVICE, HOST, WAITS, Event, number, whole

# Nothing runs for so long, and for so many times as long as all else takes: a clock jumped.
_JUMP_S, _JUMP_TIMES = 60.0, 10.0


@dataclass(slots=True)
class Span:
    """An event with a duration; times are seconds since the first of the trace."""

    name: str
    category: str
    start: float
    end: float
    correlation: int | None
    event: Event


@dataclass
class Tracks:
    """Spans by where they ran, each track in the order of their starts.

    Attributes:
        threads: Those of host threads, by process and thread; parents before what they call.
        streams: Those of streams, by device and stream.
        waits: Events of category ``cuda_sync``, by correlation.
        flows: Ends of arrows: category, id, whether it is the start, process, thread, time.
        resolution_s: How far clocks may be off by rounding.
    """

    threads: dict[tuple[Hashable, Hashable], list[Span]] = field(default_factory=dict)
    streams: dict[tuple[int, int], list[Span]] = field(default_factory=dict)
    waits: dict[int, Event] = field(default_factory=dict)
    flows: list[tuple[str, Any, bool, Hashable, Hashable, float]] = field(default_factory=list)
    resolution_s: float = 0.0


def sort_onto_tracks(
    events: Iterable[Event],
    findings: Findings,
    choose: Callable[[list[Span]], list[Span]] = list,
) -> Tracks:
    """The tracks of a trace; what cannot be placed in time or on a track is counted and left out.

    Args:
        events: Of the trace.
        findings: Counts what is wrong.
        choose: Takes the part of the spans, in the order of their starts, that is wanted.
    """
    tracks, spans = Tracks(), []
    flows = []
    for event in events:
        if event.ph in ("s", "f") and event.cat in ("ac2g", "fwdbwd"):
            flows.append(event)
        elif event.ph == "X" and event.cat == WAITS:
            correlation = whole(event.args.correlation)
            if correlation is not None:
                tracks.waits[correlation] = event
        elif event.ph == "X" and (event.cat in HOST or event.cat in DEVICE):
            span = _span(event, findings)
            if span:
                spans.append(span)
    spans.sort(key=lambda span: (span.start, -span.end))
    spans = choose(spans)
    tracks.resolution_s = _resolution_s(spans)
    origin = _begin_at_zero(spans, findings)
    tracks.flows = [
        (each.cat, each.id, each.ph == "s", _key(each.pid), _key(each.tid), number(each.ts) * 1e-6 - origin)
        for each in flows
    ]
    _place(spans, tracks, findings)
    return tracks


def _span(event: Event, findings: Findings) -> Span | None:
    if not isinstance(event.name, str) or not event.name or isinstance(event.cat, list | dict):
        findings.add("malformed")
        return None
    start, duration = number(event.ts), number(event.dur)
    if math.isnan(start) or math.isnan(duration):
        findings.add("unreadable_time")
        return None
    if duration < 0:
        findings.add("negative_duration")
        return None
    correlation = whole(event.args.correlation)
    return Span(event.name, event.cat, start * 1e-6, (start + duration) * 1e-6, correlation, event)


def _resolution_s(spans: list[Span]) -> float:
    """A microsecond where all starts are whole ones, as old Kineto writes them; else two nanoseconds."""
    return 1e-6 if all(isinstance(span.event.ts, int) for span in spans) else 2e-9


def _begin_at_zero(spans: list[Span], findings: Findings) -> float:
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
    for span, start, end in zip(spans, begun.tolist(), ended.tolist(), strict=True):
        span.start, span.end = start, end
    return origin


def _place(spans: list[Span], tracks: Tracks, findings: Findings) -> None:
    threads, streams = defaultdict(list), defaultdict(list)
    for span in spans:
        if span.category in DEVICE:
            args = span.event.args
            device = whole(args.device if args.in_device is None else args.in_device)
            stream = whole(args.stream)
            if device is None or stream is None:
                findings.add("malformed")
            else:
                streams[device, stream].append(span)
        else:
            threads[_key(span.event.pid), _key(span.event.tid)].append(span)
    tracks.threads = {key: each for key, each in threads.items() if _has_tasks(each)}
    tracks.streams = {key: _one_at_a_time(streams[key], tracks, findings) for key in sorted(streams)}


def _key(value: Any) -> Hashable:
    return value if isinstance(value, int | str) else str(value)


def _has_tasks(spans: list[Span]) -> bool:
    return any(span.category != ANNOTATION for span in spans)


def _one_at_a_time(spans: list[Span], tracks: Tracks, findings: Findings) -> list[Span]:
    """Spans of a stream of which each ends before the next starts."""
    for span, following in pairwise(spans):
        if span.end > following.start:
            if span.end > following.start + tracks.resolution_s:
                inside = following.end <= span.end
                findings.add("runs_inside_another" if inside else "outlasts_successor")
            span.end = following.start
    return spans


def spans_within(spans: list[Span], pattern: str) -> list[Span]:
    """Calls within annotations of a name, and what they launched; the annotation counts as a call itself.

    So the time of the host before the first call of a step is part of the step. It ends with its last call:
    what an annotation takes to end is the profiler's own (7 to 100 us on an H100).

    Args:
        spans: Of all tracks, by start.
        pattern: The name, or one with ``*`` or ``?``, such as ``ProfilerStep*``.

    Raises:
        CostModelError: No annotation has the name.
    """
    annotations = [span for span in spans if span.category == ANNOTATION]
    windows = [span for span in annotations if fnmatchcase(span.name, pattern)]
    if not windows:
        names = list(dict.fromkeys(span.name for span in annotations))
        raise CostModelError(
            f"An annotation of the trace must have the name {pattern!r}, but there are {names[:8]}: name "
            "one, or record the step within torch.profiler.record_function."
        )
    _end_with_their_calls(windows, spans)
    for window in windows:
        window.category = "cpu_op"
    inside = _inside(spans, windows)
    launched_inside: dict[int | None, bool] = {}
    for span, is_inside in zip(spans, inside, strict=True):
        if span.category not in DEVICE and span.correlation is not None:
            launched_inside[span.correlation] = is_inside

    def belongs(span: Span, is_inside: bool) -> bool:
        on_device = span.category in DEVICE
        return launched_inside.get(span.correlation, is_inside) if on_device else is_inside

    return [span for span, is_inside in zip(spans, inside, strict=True) if belongs(span, is_inside)]


def _end_with_their_calls(windows: list[Span], spans: list[Span]) -> None:
    """Let annotations end with the last call of their thread within them, if there is one."""
    chosen = {id(window) for window in windows}
    calls = [span for span in spans if span.category in HOST and id(span) not in chosen]
    starts = np.array([span.start for span in calls])
    ends = np.array([span.end for span in calls])
    threads = np.array([hash((span.event.pid, span.event.tid)) for span in calls])
    for window in windows:
        own = threads == hash((window.event.pid, window.event.tid))
        within = own & (window.start <= starts) & (ends <= window.end)
        window.end = float(ends[within].max()) if within.any() else window.end


def _inside(spans: list[Span], windows: list[Span]) -> list[bool]:
    """Whether each span lies within one of the windows."""
    starts = np.array([span.start for span in spans])
    ends = np.array([span.end for span in spans])
    found = np.zeros(len(spans), dtype=bool)
    for window in windows:
        found |= (window.start <= starts) & (ends <= window.end)
    return list(found.tolist())
