"""Program order and those of the other dependencies that neither each other nor the clock contradicts."""

import numpy as np
from numpy.typing import NDArray

from costmodel.planner.graphs._base import DependencyKind
from costmodel.planner.graphs._inspection import Findings
from costmodel.planner.graphs._order import in_circles
from costmodel.planner.graphs.kineto._links import Link
from costmodel.planner.graphs.kineto._tasks import Tasks

# What may be left out; a stream's or thread's own order and its launches are certain.
_UNCERTAIN = (DependencyKind.EVENT, DependencyKind.SYNC, DependencyKind.DATA)


def believed(found: list[Link], tasks: Tasks, resolution_s: float, findings: Findings) -> NDArray[np.intp]:
    """``(m, 3)`` first task, second task and kind of each dependency, those of program order first."""
    order = _program_order(tasks.resource_ids)
    all_links = np.concatenate([order, np.array(found, dtype=np.intp).reshape(-1, 3)])
    sources, targets, kinds = all_links.T
    uncertain = np.isin(kinds, _UNCERTAIN)
    circular = uncertain & in_circles(len(tasks.pieces), sources, targets)
    findings.add("waits_in_circles", int(circular.sum()))
    starts = np.array([piece.start for piece in tasks.pieces])
    ends = np.array([piece.end for piece in tasks.pieces])
    early = uncertain & ~circular & (starts[targets] < ends[sources] - resolution_s)
    findings.add("waited_too_short", int(early.sum()))
    launched = kinds == DependencyKind.LAUNCH
    findings.add(
        "starts_before_launch", int((launched & (starts[targets] < starts[sources] - resolution_s)).sum())
    )
    kept: NDArray[np.intp] = all_links[~(circular | early)]
    return kept


def _program_order(resource_ids: list[int]) -> NDArray[np.intp]:
    """Each task with the next of its resource; those of one resource stand together."""
    resources = np.array(resource_ids)
    (first,) = np.nonzero(resources[1:] == resources[:-1])
    return np.column_stack([first, first + 1, np.full(len(first), DependencyKind.ORDER)]).astype(np.intp)
