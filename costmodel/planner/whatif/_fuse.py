"""Kernels that become one: chains of elementwise ones, and those of an optimiser's step."""

from typing import Literal

import numpy as np

from costmodel.planner.graphs import DependencyKind, KernelGraph, TaskKind
from costmodel.planner.whatif._base import (
    REMOVED,
    Mask,
    contracted,
    crossing,
    followers,
    in_scope,
    is_launch,
    named,
)
from costmodel.planner.whatif._launches import remove_launches

# What kernels of PyTorch and its compiler that do the same to each element are called.
ELEMENTWISE = ("*elementwise*", "*pointwise*", "triton_poi_*")


def fuse(graph: KernelGraph, *patterns: str, scope: str = "") -> KernelGraph:
    """Kernels of a stream that match and follow each other become one, which takes as long as the longest.

    A chain ends where a kernel waits for something else than its stream and its launch, or where something
    else waits for it. Only the first launch of a chain stays.

    Args:
        graph: The graph.
        patterns: Names; those of elementwise kernels if none is given.
        scope: What they must be part of, such as the name of an annotation; anything if empty.
    """
    members = named(graph, *(patterns or ELEMENTWISE)) & graph.of_kind(TaskKind.KERNEL)
    members &= in_scope(graph, scope)
    return _fused(graph, members, "longest")


def fused_optimizer(graph: KernelGraph, scope: str = "Optimizer.step*", factor: float = 1.0) -> KernelGraph:
    """Kernels of an optimiser's step that follow each other become one, and their launches one call.

    Args:
        graph: The graph.
        scope: What tasks must be part of.
        factor: What the fused kernel takes of the sum of its parts: less where they read and wrote the same.
    """
    part = in_scope(graph, scope)
    fused = _fused(graph, part & graph.of_kind(TaskKind.KERNEL), "sum", factor)
    return remove_launches(fused, in_scope(fused, scope))


def _fused(
    graph: KernelGraph, members: Mask, takes: Literal["longest", "sum"], factor: float = 1.0
) -> KernelGraph:
    into = _heads(graph, members)
    fused_away = into != np.arange(len(graph))
    durations = graph.durations_s.copy()
    if takes == "sum":
        durations = np.bincount(into, durations, minlength=len(graph)).astype(np.float64)
        durations[np.unique(into[fused_away])] *= factor
    else:
        np.maximum.at(durations, into, graph.durations_s)
    idle = _idle_launches(graph, fused_away)
    chains = len(np.unique(into[fused_away]))
    into[idle] = REMOVED
    edges = graph.dependencies
    late = (edges.kinds == DependencyKind.LAUNCH) & fused_away[edges.targets]
    alone = graph.assuming(
        durations_s=durations,
        workload_ids=np.where(np.isin(np.arange(len(graph)), into[fused_away]), 0, graph.workload_ids),
        dependencies=edges.where(~late),
    )
    length = f"as long as its {'longest' if takes == 'longest' else f'parts together, times {factor:g}'}"
    return contracted(alone, into).assuming(
        f"{fused_away.sum() + chains:,} kernels became {chains:,} (fused): each takes {length}; "
        f"{idle.sum():,} launches went, host work around them stays."
    )


def _heads(graph: KernelGraph, members: Mask) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """``(n,)`` the first kernel of the chain that a kernel is part of; itself outside of chains."""
    waits, awaited = crossing(graph, (DependencyKind.ORDER, DependencyKind.LAUNCH))
    follower = followers(graph)
    linked = members & (follower >= 0) & ~awaited
    linked[linked] &= (members & ~waits)[follower[linked]]
    into = np.arange(len(graph))
    for task in np.flatnonzero(linked).tolist():  # in program order: the head of a task is known before
        into[follower[task]] = into[task]
    return into


def _idle_launches(graph: KernelGraph, fused_away: Mask) -> Mask:
    """``(n,)`` launches that nothing depends on but their place in the thread and kernels that are gone."""
    edges = graph.dependencies
    order = edges.kinds == DependencyKind.ORDER
    useful = ~order & ~((edges.kinds == DependencyKind.LAUNCH) & fused_away[edges.targets])
    busy = np.zeros(len(graph), dtype=bool)
    busy[edges.sources[useful]] = True
    busy[edges.targets[useful]] = True
    launched = np.zeros(len(graph), dtype=bool)
    launched[edges.sources[edges.kinds == DependencyKind.LAUNCH]] = True
    return is_launch(graph) & launched & ~busy
