"""The part of a trace that ran in an annotation, such as one step of several."""

from fnmatch import fnmatchcase

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs.kineto._calls import ANNOTATION, DEVICE
from costmodel.planner.graphs.kineto._tracks import Span


def spans_within(spans: list[Span], pattern: str) -> list[Span]:
    """Calls within annotations of a name, and what they launched; the annotation counts as a call itself.

    So the time of the host before the first call of a step, and after its last, is part of the step.

    Args:
        spans: Of all tracks.
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
    for window in windows:
        window.category = "cpu_op"
    begins = np.array([window.start for window in windows])
    ends = np.array([window.end for window in windows])

    def inside(span: Span) -> bool:
        return bool(((begins <= span.start) & (span.end <= ends)).any())

    calls = [span for span in spans if span.category not in DEVICE]
    kept = [span for span in calls if inside(span)]
    correlations = {span.correlation for span in kept} - {None}
    others = {span.correlation for span in calls} - correlations - {None}
    launched = [
        span
        for span in spans
        if span.category in DEVICE
        and (span.correlation in correlations or (span.correlation not in others and inside(span)))
    ]
    return sorted([*kept, *launched], key=lambda span: (span.start, -span.end))
