"""Launches that go: CUDA graphs."""

from dataclasses import replace

import numpy as np

from costmodel.arrays import Positions
from costmodel.planner.graphs._base import Dependencies, DependencyKind, KernelGraph
from costmodel.planner.whatif._base import Mask, chosen, gaps, is_launch, positive, program_order

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
    launches nothing is kept.

    Args:
        graph: The graph.
        among: ``(n,)`` mask of tasks that may be part of a run. Launches outside it end a run. Default: all.
        gap_s: Seconds between consecutive kernels of a run on a stream.

    Raises:
        CostModelError: If the gap is negative or not finite.
    """
    positive(gap_s, "gap")
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
    return changed.assuming(
        f"{(is_launch(graph) & captured).sum():,} launches became {len(np.unique(into[captured])):,} (CUDA "
        f"graphs): shapes and addresses stay the same, the host has nothing else to do in a run, "
        f"{gap_s * 1e6:.2f} us pass between kernels of a stream."
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
    breaks = waits | (is_launch(graph) & ~may)
    number = np.empty(len(graph), dtype=np.intp)
    number[graph.order] = np.cumsum(breaks[graph.order])
    inside = may & ~breaks
    launches = np.bincount(number[inside & is_launch(graph)], minlength=len(graph) + 1)
    return np.where(inside & (launches[number] > 0), number, -1)


def _first_launches(graph: KernelGraph, runs: Positions) -> Positions:
    """``(runs,)`` the first launch of each run."""
    found = np.full(runs.max(initial=-1) + 1, -1)
    launches = graph.order[(is_launch(graph) & (runs >= 0))[graph.order]][::-1]
    found[runs[launches]] = launches
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
    left = np.where(launched, gap_s, np.where(merged, 0.0, gaps(graph)))
    order = program_order(graph.resource_ids[stays], left[stays])
    return chosen(graph, stays, Dependencies.joined([order, moved]))
