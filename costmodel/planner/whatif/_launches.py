"""Launches that go: CUDA graphs."""

import numpy as np

from costmodel.planner.graphs import DependencyKind, KernelGraph, TaskKind
from costmodel.planner.whatif._base import Mask, contracted, crossing, followers, is_launch, positive


def remove_launches(graph: KernelGraph, among: Mask | None = None, *, gap_s: float = 0.0) -> KernelGraph:
    """Runs of launches of a thread become one launch each, as a CUDA graph's.

    A run ends where the thread waits for a device or another thread; host work inside of it goes with the
    launches. Its kernels then follow each other on their streams as those of the trace do that did not have
    to wait for their launch; where launches set the pace there are none, and ``gap_s`` says it.

    Args:
        graph: The graph.
        among: ``(n,)`` tasks that may be part of a run; all if None.
        gap_s: Seconds that pass between kernels of a stream at least.

    Raises:
        CostModelError: The gap is negative or not finite.
    """
    positive(gap_s, "gap")
    waits, _ = crossing(graph, (DependencyKind.ORDER, DependencyKind.LAUNCH))
    inside = ~graph.on_device & ~graph.of_kind(TaskKind.SYNC)
    if among is not None:
        inside &= among
    into = _heads(graph, inside, waits)
    merged = int((is_launch(graph) & (into != np.arange(len(graph)))).sum())
    runs = len(np.unique(into[into != np.arange(len(graph))]))
    changed = contracted(graph, into)
    edges = changed.dependencies
    in_stream = (edges.kinds == DependencyKind.ORDER) & changed.on_device[edges.targets]
    lags = np.where(in_stream, np.maximum(edges.lags_s, gap_s), edges.lags_s)
    typical = np.median(lags[in_stream]) * 1e6 if in_stream.any() else 0.0
    return changed.assuming(
        f"{merged + runs:,} launches became {runs:,} (CUDA graphs): shapes and addresses stay the same, the "
        f"host has nothing to do between launches of a run, {typical:.2f} us pass between kernels (median).",
        dependencies=edges.lagging(lags),
    )


def _heads(graph: KernelGraph, inside: Mask, waits: Mask) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """``(n,)`` the first launch of the run that a task is part of, between its first and last launch."""
    into, launches = np.arange(len(graph)), is_launch(graph).tolist()
    follower, may, breaks = followers(graph).tolist(), inside.tolist(), waits.tolist()
    has_before = np.zeros(len(graph), dtype=bool)
    has_before[[each for each in follower if each >= 0]] = True
    for first in np.flatnonzero(~has_before & ~graph.on_device).tolist():
        task, head, since = first, -1, list[int]()
        while task >= 0:
            if not may[task] or breaks[task]:
                head, since = -1, []
            if may[task] and launches[task]:
                if head < 0:
                    head = task
                into[[*since, task]] = head
                since = []
            elif head >= 0:
                since.append(task)
            task = follower[task]
    return into
