"""The part of a trace that ran in an annotation, such as one step of several."""

from fnmatch import fnmatchcase

import numpy as np

from costmodel.errors import CostModelError, shorten
from costmodel.planner.graphs.traces._events import ANNOTATION, DEVICE, OPERATOR
from costmodel.planner.graphs.traces._spans import Span


def spans_within(spans: list[Span], pattern: str) -> list[Span]:
    """Take the calls within annotations of a name, and what they launched; annotations count as calls.

    So the time of the host before the first call of a step is part of the step. It ends with its last call:
    what an annotation takes to end is the profiler's own (7 to 100 us on an H100).

    Args:
        spans: Of all tracks, by start.
        pattern: The name, or one with ``*`` or ``?``, such as ``ProfilerStep*``.

    Raises:
        CostModelError: No annotation has the name.
    """
    annotations = [span for span in spans if span.category == ANNOTATION]
    windows = [span for span in annotations if span.name == pattern or fnmatchcase(span.name, pattern)]
    if not windows:
        names = list(dict.fromkeys(span.name for span in annotations))
        raise CostModelError(
            f"An annotation of the trace must have the name {shorten(pattern)!r}, but there are {names[:8]}: "
            "name one, or record the step within torch.profiler.record_function."
        )
    _end_with_their_calls(windows, spans)
    for window in windows:
        window.category = OPERATOR
    inside = _inside(spans, windows)
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
