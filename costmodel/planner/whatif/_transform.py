"""Common parts of transforms: selecting tasks by name, and making the resulting graph."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError, shorten
from costmodel.planner.graphs._kernel_class import KernelClass
from costmodel.planner.graphs._kernel_graph import Dependencies, DependencyKind, KernelGraph, TaskKind

Mask = NDArray[np.bool_]
# Into nothing: what ``contract`` takes away.
REMOVED = -1
# Digits of seconds by which starts differ, beside rounding.
DIGITS_S = 13


def matches(text: str, pattern: str) -> bool:
    """Tell whether a name holds a text, or fits a pattern with ``*``, ``?`` or ``[``, in any capitals."""
    text, pattern = text.lower(), pattern.lower()
    return pattern in text or fnmatchcase(text, pattern)


def match_names(graph: KernelGraph, *patterns: str) -> Mask:
    """Find the tasks whose name matches one of the patterns: an ``(n,)`` mask."""
    return _matching(graph.names, patterns)[graph.name_ids]


def in_scope(graph: KernelGraph, pattern: str) -> Mask:
    """Find the tasks that are part of what matches the pattern: an ``(n,)`` mask."""
    return _matching(graph.scopes, (pattern,))[graph.scope_ids]


def kernels_named(graph: KernelGraph, pattern: str) -> Mask:
    """Find the kernels, copies and memsets whose name matches: an ``(n,)`` mask.

    Raises:
        CostModelError: None is.
    """
    found = match_names(graph, pattern) & graph.on_device
    if not found.any():
        distinct = sorted({graph.names[i] for i in np.unique(graph.name_ids[graph.on_device])})
        raise CostModelError(
            f"A pattern must match the name of a kernel, but none matches {shorten(pattern)!r}. There are "
            f"{len(distinct)} names, among them: {', '.join(distinct[:5])}."
        )
    return found


def check_positive(value: float, what: str) -> float:
    """Check that a value is a number that is not negative.

    Raises:
        CostModelError: It is not.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and np.isfinite(value) and value >= 0):
        raise CostModelError(f"A {what} must be a non-negative number, but got {shorten(value)}.")
    return value


def find_gaps(graph: KernelGraph) -> FloatArray:
    """Return ``(n,)`` seconds between a task and the one before on its resource; 0 for the first of each."""
    found = np.zeros(len(graph))
    edges = graph.dependencies
    order = edges.kinds == DependencyKind.ORDER
    found[edges.targets[order]] = edges.lags_s[order]
    return found


def find_followers(graph: KernelGraph) -> Positions:
    """Find ``(n,)`` the next task of the same resource; -1 for the last."""
    found = np.full(len(graph), -1)
    edges = graph.dependencies
    order = edges.kinds == DependencyKind.ORDER
    found[edges.sources[order]] = edges.targets[order]
    return found


def order_on_resources(resource_ids: NDArray[np.int32], gaps_s: FloatArray) -> Dependencies:
    """Make dependencies of each task on the one before on its resource."""
    by_resource = np.argsort(resource_ids, kind="stable")
    same = resource_ids[by_resource[1:]] == resource_ids[by_resource[:-1]]
    targets = by_resource[1:][same]
    return Dependencies.of(by_resource[:-1][same], targets, DependencyKind.ORDER, gaps_s[targets])


def select_tasks(graph: KernelGraph, tasks: Positions | Mask, dependencies: Dependencies) -> KernelGraph:
    """Select some tasks, in the order in which they are given, with these dependencies."""
    return replace(
        graph,
        name_ids=graph.name_ids[tasks],
        kinds=graph.kinds[tasks],
        resource_ids=graph.resource_ids[tasks],
        durations_s=graph.durations_s[tasks],
        ready_s=graph.ready_s[tasks],
        sms=graph.sms[tasks],
        blocks=graph.blocks[tasks],
        block_warps=graph.block_warps[tasks],
        sm_blocks=graph.sm_blocks[tasks],
        scope_ids=graph.scope_ids[tasks],
        workload_ids=graph.workload_ids[tasks],
        dependencies=dependencies,
    )


@dataclass(frozen=True)
class AddedKernels:
    """Kernels of one name that run behind others. All arrays are ``(n,)``.

    Attributes:
        name: Their name.
        kernels: What they are.
        counts: How many follow a task; 0 for all but kernels.
        durations_s: Seconds that each of these takes.
        blocks: Blocks that each of these has; 0 if unknown.
    """

    name: str
    kernels: KernelClass
    counts: Positions
    durations_s: FloatArray
    blocks: Positions


def insert_kernels(graph: KernelGraph, added: AddedKernels) -> KernelGraph:
    """Put kernels behind others on their streams, before all that waits for these."""
    if not added.counts.any():
        return graph
    tasks = np.repeat(np.arange(len(graph)), 1 + added.counts)
    is_new = np.diff(tasks, prepend=-1) == 0
    number = np.flatnonzero(~is_new)
    edges = graph.dependencies.where(graph.dependencies.kinds != DependencyKind.ORDER)
    last = number + added.counts
    sources = np.where(edges.from_start, number[edges.sources], last[edges.sources])
    moved = replace(edges, sources=sources, targets=number[edges.targets])
    order = order_on_resources(graph.resource_ids[tasks], np.where(is_new, 0.0, find_gaps(graph)[tasks]))
    found = select_tasks(graph, tasks, Dependencies.joined([order, moved]))
    return replace(
        found,
        names=(*graph.names, added.name),
        classes=(*graph.known_classes, added.kernels),
        operators=(*graph.operators, "") if graph.operators else (),
        name_ids=np.where(is_new, len(graph.names), found.name_ids).astype(np.int32),
        durations_s=np.where(is_new, added.durations_s[tasks], found.durations_s),
        blocks=np.where(is_new, added.blocks[tasks], found.blocks),
        block_warps=np.where(is_new, 0, found.block_warps),
        sm_blocks=np.where(is_new, 0, found.sm_blocks),
        workload_ids=np.where(is_new, 0, found.workload_ids),
    )


def contract(graph: KernelGraph, into: Positions) -> KernelGraph:
    """Merge tasks into others of their resource, or take them away.

    Time between merged tasks goes; time around what is taken away stays. What waited for a merged task waits
    for what it is merged into, and the other way round.

    Args:
        graph: The graph.
        into: ``(n,)`` the task itself where it stays, an earlier one of its resource that stays, or
            ``REMOVED`` for one that has no dependencies but program order and launches.
    """
    stays = into == np.arange(len(graph))
    own_gaps = np.where((into == REMOVED) | stays, find_gaps(graph), 0.0)
    number = np.cumsum(stays) - 1
    edges = graph.dependencies.where(graph.dependencies.kinds != DependencyKind.ORDER)
    sources, targets = into[edges.sources], into[edges.targets]
    kept = (sources != targets) & (sources != REMOVED) & (targets != REMOVED)
    edges = edges.where(kept)
    moved = replace(edges, sources=number[sources[kept]], targets=number[targets[kept]])
    order = order_on_resources(graph.resource_ids[stays], _gaps_left(graph, own_gaps, stays)[stays])
    return select_tasks(graph, stays, Dependencies.joined([order, moved]))


def _gaps_left(graph: KernelGraph, own_gaps: FloatArray, stays: Mask) -> FloatArray:
    """``(n,)`` seconds since the last task of the resource that stays, without the tasks between."""
    left = np.zeros(len(graph))
    by_resource = np.argsort(graph.resource_ids, kind="stable")
    passed = np.cumsum(own_gaps[by_resource])
    staying = np.flatnonzero(stays[by_resource])
    resource = graph.resource_ids[by_resource][staying]
    between = np.diff(passed[staying], prepend=0.0)
    same = np.concatenate([[False], resource[1:] == resource[:-1]]) if len(staying) else between > 0
    left[by_resource[staying]] = np.where(same, np.maximum(between, 0.0), 0.0)
    return left


def find_crossings(graph: KernelGraph, kinds: tuple[DependencyKind, ...]) -> tuple[Mask, Mask]:
    """Tell ``(n,)`` twice whether a task waits for, or is awaited by, more than its neighbour.

    Args:
        graph: The graph.
        kinds: Dependencies that do not count.
    """
    edges = graph.dependencies
    foreign = ~np.isin(edges.kinds, kinds) & (find_followers(graph)[edges.sources] != edges.targets)
    waits, awaited = np.zeros(len(graph), dtype=bool), np.zeros(len(graph), dtype=bool)
    waits[edges.targets[foreign]] = True
    awaited[edges.sources[foreign]] = True
    return waits, awaited


def find_launches(graph: KernelGraph) -> Mask:
    """Find the tasks that launch something: an ``(n,)`` mask."""
    return graph.of_kind(TaskKind.LAUNCH)


def _matching(texts: tuple[str, ...], patterns: tuple[str, ...]) -> Mask:
    return np.array([any(matches(text, each) for each in patterns) for text in texts], dtype=bool)
