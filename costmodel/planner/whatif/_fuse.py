"""Kernels and launches that become one: fused chains, an optimiser's step, CUDA graphs."""

from dataclasses import replace

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import Dependencies, DependencyKind, KernelGraph, TaskKind
from costmodel.planner.graphs._trace_tasks import ATTENTION_IN_PARTS
from costmodel.planner.whatif._kernel_time import START_S, find_products
from costmodel.planner.whatif._transform import (
    REMOVED,
    Mask,
    check_positive,
    contract,
    find_crossings,
    find_followers,
    find_gaps,
    find_launches,
    in_scope,
    match_names,
    order_on_resources,
    select_tasks,
)

# Seconds between kernels of a CUDA graph that wait for each other, as measured on an H100: the median of 60
# graphs of 9 networks (experiments/real_traces).
GRAPH_GAP_S = 0.33e-6


def remove_launches(
    graph: KernelGraph, among: Mask | None = None, *, gap_s: float = GRAPH_GAP_S
) -> KernelGraph:
    """Replace all launches up to a wait by one, as a CUDA graph does, and remove the other host work.

    A run of launches ends where a thread waits for a device. The threads of a run are treated together: the
    captured graph contains the kernels of a backward pass, whichever thread launched them. All host work of a
    run is removed with its launches, also that before the first and after the last launch. A run that
    launches nothing that is known is kept.

    Args:
        graph: The graph.
        among: ``(n,)`` mask of tasks that may be part of a run. Launches outside it end a run. Default: all.
        gap_s: Seconds between consecutive kernels of a run on a stream.

    Raises:
        CostModelError: If the gap is negative or not finite.
    """
    check_positive(gap_s, "gap")
    runs = _runs(graph, among)
    heads = _first_launches(graph, runs)
    into = np.arange(len(graph))
    captured = runs >= 0
    into[captured] = heads[runs[captured]]
    launched = np.zeros(len(graph), dtype=bool)
    edges = graph.dependencies
    is_launched = (edges.kinds == DependencyKind.LAUNCH) & captured[edges.sources]
    launched[edges.targets[is_launched]] = True
    changed = _captured(graph, into, launched, gap_s)
    if not captured.any():
        return changed.assuming(
            "No launch became part of a CUDA graph, as none is known to launch a kernel, copy or memset."
        )
    launches, left = (find_launches(graph) & captured).sum(), len(np.unique(into[captured]))
    return changed.assuming(
        f"{launches:,} launches became {left:,} (CUDA graphs): shapes and addresses stay the same, the host "
        f"has nothing else to do in a run, {gap_s * 1e6:.2f} us pass between kernels of a stream."
    )


def _runs(graph: KernelGraph, among: Mask | None) -> Positions:
    """``(n,)`` the run that a task of the host is captured in; -1 for what stays."""
    edges, host = graph.dependencies, ~graph.on_device
    may = host if among is None else host & among
    # Whoever waits for a device, or for work that stays, cannot be done before it, nor what stays before what
    # it waits for.
    foreign = ~(may[edges.sources] & may[edges.targets]) & (edges.kinds != DependencyKind.ORDER)
    waits = np.zeros(len(graph), dtype=bool)
    waits[edges.targets[host[edges.targets] & foreign]] = True
    breaks = waits | (find_launches(graph) & ~may)
    number = np.empty(len(graph), dtype=np.intp)
    number[graph.order] = np.cumsum(breaks[graph.order])
    inside = may & ~breaks
    launches = np.bincount(number[inside & _launching(graph)], minlength=len(graph) + 1)
    return np.where(inside & (launches[number] > 0), number, -1)


def _first_launches(graph: KernelGraph, runs: Positions) -> Positions:
    """``(runs,)`` the first launch of each run."""
    found = np.full(runs.max(initial=-1) + 1, -1)
    launches = graph.order[(_launching(graph) & (runs >= 0))[graph.order]][::-1]
    found[runs[launches]] = launches
    return found


def _launching(graph: KernelGraph) -> Mask:
    """``(n,)`` whether a task launches something that is known."""
    edges, found = graph.dependencies, np.zeros(len(graph), dtype=bool)
    found[edges.sources[(edges.kinds == DependencyKind.LAUNCH) & graph.on_device[edges.targets]]] = True
    return found


def _captured(graph: KernelGraph, into: Positions, launched: Mask, gap_s: float) -> KernelGraph:
    """The graph with host tasks merged into launches, of any thread, and gaps between what these launch."""
    stays = into == np.arange(len(graph))
    edges = graph.dependencies.where(graph.dependencies.kinds != DependencyKind.ORDER)
    sources, targets = into[edges.sources], into[edges.targets]
    kept = sources != targets
    number = np.cumsum(stays) - 1
    moved = replace(edges.where(kept), sources=number[sources[kept]], targets=number[targets[kept]])
    merged = np.isin(np.arange(len(graph)), into[~stays])
    left = np.where(launched, gap_s, np.where(merged, 0.0, find_gaps(graph)))
    order = order_on_resources(graph.resource_ids[stays], left[stays])
    return select_tasks(graph, stays, Dependencies.joined([order, moved]))


# What kernels of PyTorch and its compiler that do the same to each element are called.
ELEMENTWISE = ("*elementwise*", "*pointwise*", "triton_poi_*")


def fuse(graph: KernelGraph, *patterns: str, scope: str = "") -> KernelGraph:
    """Fuse matching kernels that follow each other on a stream.

    The fused kernel takes as long as the longest of them; if matrix products are among them, as long as the
    products together, because fused attention computes both of its products; else it is like that longest
    one. A chain ends where a kernel
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
    return _fuse_members(graph, match_names(graph, *(patterns or ELEMENTWISE)) & in_scope(graph, scope))


def fuse_attention(graph: KernelGraph) -> KernelGraph:
    """Let attention that PyTorch computes in parts be one kernel, as it is in half precision."""
    members = in_scope(graph, ATTENTION_IN_PARTS) | _parts_of_attention(graph)
    return _fuse_members(graph, members) if members.any() else graph


# PyTorch's attention in parts scales queries and keys, and looks for rows of minus infinity, as only it does.
_SCALES, _SAFE_SOFTMAX = ("*unaryfunctor*mulfunctor*",), ("*isneginf*",)


def _parts_of_attention(graph: KernelGraph) -> Mask:
    """``(n,)`` kernels from the first scaling to the second product, where operators have no names."""
    follower, products = find_followers(graph), find_products(graph)
    before, linked = np.full(len(graph), -1), np.flatnonzero(follower >= 0)
    before[follower[linked]] = linked
    scales, found = match_names(graph, *_SCALES), np.zeros(len(graph), dtype=bool)
    for middle in np.flatnonzero(
        match_names(graph, *_SAFE_SOFTMAX) & graph.of_kind(TaskKind.KERNEL)
    ).tolist():
        to_second, to_first = _path(middle, follower, products), _path(middle, before, products)
        if to_second and to_first:
            to_scaling = _path(to_first[-1], before, scales, count=2)
            found[[*to_first, middle, *to_second]] = True
            found[[] if products[to_scaling].any() else to_scaling] = True
    return found


def _path(start: int, neighbour: Positions, ends: Mask, *, count: int = 1) -> list[int]:
    """Tasks after one, in the direction of neighbours, to the so-manieth of some; none if there are fewer."""
    found, task = list[int](), start
    while count and (task := int(neighbour[task])) >= 0:
        found.append(task)
        count -= int(ends[task])
    return [] if count else found


def _fuse_members(graph: KernelGraph, members: Mask) -> KernelGraph:
    into = _heads(graph, members & graph.of_kind(TaskKind.KERNEL))
    longest = np.zeros(len(graph))
    np.maximum.at(longest, into, graph.durations_s)
    products = find_products(graph)
    computing = np.bincount(into, graph.durations_s * products, minlength=len(graph))
    several = np.bincount(into, products, minlength=len(graph))[into] > 1
    unknown = graph.assuming(blocks=np.where(several, 0, graph.blocks))  # what one kernel of several has
    durations_s = np.where(computing > 0, computing, longest)
    return _fused(unknown, into, durations_s, "its longest, or its products together")


# What a fused optimiser takes of the work of its parts, as both wait for the memory: Adam reads weights,
# gradients and two moments and writes three of them, 7 lists of numbers where a kernel for each operation
# moves 21 in all; SGD with momentum 5 of 8. On an H100 these are .35, and .59 and .61 (datasets/traces).
_FUSED_WORK = {"*adam*": 7 / 21, "*sgd*": 5 / 8}
# Kernels that move each number once already.
_ALREADY_FUSED = "*fused*"


def fused_optimizer(
    graph: KernelGraph, scope: str = "Optimizer.step*", factor: float | None = None
) -> KernelGraph:
    """Fuse consecutive kernels of an optimiser's step, and their launches.

    Args:
        graph: The graph.
        scope: Scope that the tasks must be part of.
        factor: Duration of the fused kernel divided by the sum of its parts. Default: it moves each number
            once, which is known of Adam and of SGD with momentum; others take what their parts take, and so
            do kernels that are fused already and steps of a single operation, such as SGD without momentum.

    Raises:
        CostModelError: If the factor is negative or not finite.
    """
    if factor is not None:
        check_positive(factor, "factor")
    members = in_scope(graph, scope) & graph.of_kind(TaskKind.KERNEL)
    if not members.any():
        return graph.assuming(f"Nothing changes, as no kernel was launched within an annotation {scope}.")
    into = _heads(graph, members)
    if factor is None:
        start_s, work = np.minimum(graph.durations_s, START_S), np.ones(len(graph))
        for name, share in _FUSED_WORK.items():
            parts = members & in_scope(graph, name) & ~match_names(graph, _ALREADY_FUSED)
            if len(np.unique(graph.name_ids[parts])) > 1:
                work[parts] = share
        parts_s, length = (graph.durations_s - start_s) * work, "the numbers that its parts move, each once"
    else:
        start_s, parts_s = np.zeros(len(graph)), graph.durations_s * factor
        length = f"its parts together, times {factor:g}"
    fused_s = start_s + np.bincount(into, parts_s, minlength=len(graph))
    chains = np.unique(into[into != np.arange(len(graph))])
    durations_s = graph.durations_s.copy()
    durations_s[chains] = fused_s[chains]
    fused = _fused(graph, into, durations_s, length)
    return remove_launches(fused, in_scope(fused, scope))


def _fused(graph: KernelGraph, into: Positions, durations: FloatArray, length: str) -> KernelGraph:
    """The graph with kernels merged into the heads of their chains, which take the durations given."""
    fused_away = into != np.arange(len(graph))
    if not fused_away.any():
        return graph.assuming(
            "No kernels became one: of those asked for, none follows another that it could be fused with."
        )
    chains = len(np.unique(into[fused_away]))
    idle = _idle_launches(graph, fused_away)
    hosts = _host_work(graph, into, idle)
    edges = graph.dependencies
    late = (edges.kinds == DependencyKind.LAUNCH) & fused_away[edges.targets]
    of = _leading(graph, into)
    alone = graph.assuming(
        durations_s=durations,
        name_ids=graph.name_ids[of],
        blocks=graph.blocks[of],
        block_warps=graph.block_warps[of],
        sm_blocks=graph.sm_blocks[of],
        workload_ids=np.where(np.isin(np.arange(len(graph)), into[fused_away]), 0, graph.workload_ids),
        dependencies=edges.where(~late),
    )
    return contract(alone, np.where(fused_away, into, hosts)).assuming(
        f"{fused_away.sum() + chains:,} kernels became {chains:,} (fused): each takes as long as {length}; "
        f"{idle.sum():,} launches went, and the host's work between them where nothing else is launched."
    )


def _leading(graph: KernelGraph, into: Positions) -> Positions:
    """``(n,)`` the kernel that one made of several is like: its longest product, or else its longest."""
    order = np.lexsort((-np.arange(len(graph)), graph.durations_s, find_products(graph), into))
    last = np.flatnonzero(np.diff(into[order], append=-2))
    found = np.arange(len(graph))
    found[into[order[last]]] = order[last]
    return found


def _host_work(graph: KernelGraph, into: Positions, idle: Mask) -> Positions:
    """``(n,)`` the launch that a task of the host goes with; ``REMOVED`` for other idle launches."""
    edges = graph.dependencies
    launches = edges.where(edges.kinds == DependencyKind.LAUNCH)
    chain = np.full(len(graph), -1)
    chain[launches.sources] = into[launches.targets]
    waits, _ = find_crossings(graph, (DependencyKind.ORDER, DependencyKind.LAUNCH))
    breaks = (waits | graph.of_kind(TaskKind.SYNC)).tolist()
    found = np.where(idle, REMOVED, np.arange(len(graph)))
    launching = (find_launches(graph) | (chain >= 0)).tolist()
    follower = find_followers(graph)
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
    waits, awaited = find_crossings(graph, (DependencyKind.ORDER, DependencyKind.LAUNCH))
    follower = find_followers(graph)
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
    return find_launches(graph) & launched & ~busy
