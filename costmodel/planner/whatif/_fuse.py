"""Kernels that become one: chains of elementwise ones, and those of an optimiser's step."""

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.planner.graphs._base import DependencyKind, KernelGraph, TaskKind
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
from costmodel.planner.whatif._bounds import products
from costmodel.planner.whatif._launches import remove_launches

# What kernels of PyTorch and its compiler that do the same to each element are called.
ELEMENTWISE = ("*elementwise*", "*pointwise*", "triton_poi_*")


def fuse(graph: KernelGraph, *patterns: str, scope: str = "") -> KernelGraph:
    """Fuse matching kernels that follow each other on a stream.

    The fused kernel takes as long as the longest of them; if matrix products are among them, as long as the
    products together, because fused attention computes both of its products. A chain ends where a kernel
    waits for something other than its stream and its launch, or where something else waits for it. Only the
    first launch of a chain remains. The host work from there to the last launch is removed, unless it
    launches something else in between.

    Args:
        graph: The graph.
        patterns: Patterns of kernel names. Default: those of elementwise kernels.
        scope: Scope that the kernels must be part of, such as the name of an annotation. Default: any.

    Raises:
        CostModelError: If nothing is part of the scope. The kernels of a CUDA graph are part of no scope.
    """
    if scope and not in_scope(graph, scope).any():
        raise CostModelError(
            f"A scope must match an annotation around launches, but {scope!r} matches none of "
            f"{[each for each in graph.scopes if each][:5]}: trace the model call by call, not as a CUDA "
            "graph, with torch.profiler.record_function around what is fused."
        )
    members = named(graph, *(patterns or ELEMENTWISE)) & graph.of_kind(TaskKind.KERNEL)
    members &= in_scope(graph, scope)
    into = _heads(graph, members)
    longest = np.zeros(len(graph))
    np.maximum.at(longest, into, graph.durations_s)
    computing = np.bincount(into, graph.durations_s * products(graph), minlength=len(graph))
    return _fused(
        graph, into, np.where(computing > 0, computing, longest), "its longest, or its products together"
    )


def fused_optimizer(graph: KernelGraph, scope: str = "Optimizer.step*", factor: float = 1.0) -> KernelGraph:
    """Fuse consecutive kernels of an optimiser's step, and their launches.

    Args:
        graph: The graph.
        scope: Scope that the tasks must be part of.
        factor: Duration of the fused kernel divided by the sum of its parts: below 1 if the parts read and
            write the same data.
    """
    into = _heads(graph, in_scope(graph, scope) & graph.of_kind(TaskKind.KERNEL))
    durations = np.bincount(into, graph.durations_s, minlength=len(graph)).astype(np.float64)
    durations[np.unique(into[into != np.arange(len(graph))])] *= factor
    fused = _fused(graph, into, durations, f"its parts together, times {factor:g}")
    return remove_launches(fused, in_scope(fused, scope))


def _fused(graph: KernelGraph, into: Positions, durations: FloatArray, length: str) -> KernelGraph:
    """The graph with kernels merged into the heads of their chains, which take the durations given."""
    fused_away = into != np.arange(len(graph))
    chains = len(np.unique(into[fused_away]))
    idle = _idle_launches(graph, fused_away)
    hosts = _host_work(graph, into, idle)
    edges = graph.dependencies
    late = (edges.kinds == DependencyKind.LAUNCH) & fused_away[edges.targets]
    alone = graph.assuming(
        durations_s=durations,
        workload_ids=np.where(np.isin(np.arange(len(graph)), into[fused_away]), 0, graph.workload_ids),
        dependencies=edges.where(~late),
    )
    return contracted(alone, np.where(fused_away, into, hosts)).assuming(
        f"{fused_away.sum() + chains:,} kernels became {chains:,} (fused): each takes as long as {length}; "
        f"{idle.sum():,} launches went, and the host's work between them where nothing else is launched."
    )


def _host_work(graph: KernelGraph, into: Positions, idle: Mask) -> Positions:
    """``(n,)`` the launch that a task of the host goes with; ``REMOVED`` for other idle launches."""
    edges = graph.dependencies
    launches = edges.where(edges.kinds == DependencyKind.LAUNCH)
    chain = np.full(len(graph), -1)
    chain[launches.sources] = into[launches.targets]
    waits, _ = crossing(graph, (DependencyKind.ORDER, DependencyKind.LAUNCH))
    breaks = (waits | graph.of_kind(TaskKind.SYNC)).tolist()
    found = np.where(idle, REMOVED, np.arange(len(graph)))
    launching = (is_launch(graph) | (chain >= 0)).tolist()
    follower = followers(graph)
    is_first = ~graph.on_device & ~np.isin(np.arange(len(graph)), follower)
    for first in np.flatnonzero(is_first).tolist():
        task, head, since = first, -1, list[int]()
        while task >= 0:
            if breaks[task]:
                head, since = -1, []
            if launching[task]:
                if head >= 0 and idle[task] and chain[task] == chain[head]:
                    found[[*since, task]] = head
                else:
                    head = task
                since = []
            elif head >= 0:
                since.append(task)
            task = int(follower[task])
    return found


def _heads(graph: KernelGraph, members: Mask) -> Positions:
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
