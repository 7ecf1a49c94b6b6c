"""Kernels on several streams: as many at once as their data allow.

Reference:
    W. Kwon et al., Nimble: Lightweight and parallel GPU task scheduling for deep learning, NeurIPS 2020: the
    minimum equivalent graph, a maximum matching of it, and a stream for each chain.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from costmodel.arguments import check_whole
from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.planner._replay import replay
from costmodel.planner.graphs._kernel_graph import (
    Dependencies,
    DependencyKind,
    KernelGraph,
    Resource,
    group_values,
)
from costmodel.planner.whatif._transform import (
    DIGITS_S,
    check_positive,
    find_gaps,
    order_on_resources,
    select_tasks,
)

_DATA = (DependencyKind.DATA, DependencyKind.EVENT)
# Reachability is a square of bits: 50 MB of these.
_MOST_TASKS = 20_000


def on_streams(graph: KernelGraph, streams: int, *, slowdown: float = 1.0) -> KernelGraph:
    """Distribute kernels, copies and memsets over at most this number of streams of one device.

    Tasks are grouped into chains of dependent tasks, as few as possible such that tasks that may run at once
    are on different streams. Each chain gets a stream. If there are more chains than streams, the longest
    chains are assigned first, each to the stream with the least work.

    Args:
        graph: A graph that contains data dependencies between tasks: ``after`` in your own JSON.
        streams: Maximum number of streams.
        slowdown: Duration of a task next to others divided by its duration alone. For streams that share the
            SMs, use ``on_sms`` as well.

    Raises:
        CostModelError: If the graph has no data dependencies (as with a trace) or too many tasks, or an
            argument is invalid.
    """
    check_whole("streams", streams, 1)
    if not check_positive(slowdown, "slowdown"):
        raise CostModelError("A slowdown must be positive, but got 0.")
    free, gaps_s = take_off_streams(graph)
    device = np.flatnonzero(free.on_device)
    chains = _chains(free, device)
    stream_of, used = _share_out(chains, free.durations_s, streams)
    return put_on_streams(free, stream_of, gaps_s).assuming(
        f"{len(device):,} kernels in {len(chains):,} chains run on {used:,} streams of one device; kernels "
        f"on different streams take {slowdown:g} times as long as alone, and waits between streams nothing.",
        durations_s=free.durations_s * np.where(free.on_device & (used > 1), slowdown, 1.0),
    )


def take_off_streams(graph: KernelGraph) -> tuple[KernelGraph, FloatArray]:
    """Keep what kernels need alone, tasks in the order in which they could start then.

    With it come ``(n,)`` the seconds that passed between a task and the one before on its resource.

    Raises:
        CostModelError: The graph has no dependencies of data, as one of a trace, or too many tasks.
    """
    device = np.flatnonzero(graph.on_device)
    edges = graph.dependencies
    data = edges.kinds == DependencyKind.DATA
    data &= graph.on_device[edges.sources] & graph.on_device[edges.targets]
    if len(device) > 1 and not data.any():
        raise CostModelError(
            "Streams can be chosen only where it is known which kernel needs which, but the graph has the "
            "order of its streams and their waits alone, as traces do: write it as JSON with `after`."
        )
    if len(device) > _MOST_TASKS:
        raise CostModelError(
            f"Streams can be chosen for up to {_MOST_TASKS:,} kernels, but got {len(device):,}."
        )
    of_stream = (edges.kinds == DependencyKind.ORDER) & graph.on_device[edges.targets]
    free = replace(graph, dependencies=edges.where(~of_stream))
    # Of those that start at the same time, the one with the longest way to the end should find room first.
    ordered, by_start = sort_by_start(free, replay(free).starts_s, -_seconds_to_end(free))
    return ordered, find_gaps(graph)[by_start]


def sort_by_start(
    graph: KernelGraph, starts_s: FloatArray, turns: FloatArray | Positions
) -> tuple[KernelGraph, Positions]:
    """Sort the tasks of a graph by their starts, and tell where each was.

    Of those that start at the same time the one of the lowest turn comes first. If no task has a lower turn
    than one that it needs, any order along this one has no circle.
    """
    rank = np.empty(len(graph), dtype=np.intp)
    rank[graph.order] = np.arange(len(graph))
    by_start = np.lexsort((rank, turns, starts_s.round(DIGITS_S)))
    place = np.empty_like(by_start)
    place[by_start] = np.arange(len(graph))
    edges = graph.dependencies
    moved = replace(edges, sources=place[edges.sources], targets=place[edges.targets])
    return select_tasks(graph, by_start, moved), by_start


def _seconds_to_end(graph: KernelGraph) -> FloatArray:
    """``(n,)`` of the longest chain from the start of each task, lags left out."""
    first, targets = group_values(len(graph), graph.dependencies.sources, graph.dependencies.targets)
    found: list[float] = graph.durations_s.tolist()
    for task in graph.order[::-1].tolist():
        found[task] += max((found[each] for each in targets[first[task] : first[task + 1]]), default=0.0)
    return np.array(found)


def put_on_streams(graph: KernelGraph, stream_of: Positions, gaps_s: FloatArray) -> KernelGraph:
    """Put the kernels of a graph on streams, which run them in the graph's order.

    Args:
        graph: Kernels without streams, in an order that their dependencies allow.
        stream_of: ``(n,)`` number of each kernel's stream, all of them from 0; -1 for tasks of the host.
        gaps_s: ``(n,)`` seconds that pass between a task and the one before on its stream or thread.
    """
    others = [i for i, resource in enumerate(graph.resources) if not resource.is_stream]
    number = np.full(len(graph.resources), -1)
    number[others] = np.arange(len(others))
    ids = np.where(graph.on_device, len(others) + stream_of, number[graph.resource_ids]).astype(np.int32)
    streams = [Resource(f"stream {i}", is_stream=True) for i in range(stream_of.max(initial=-1) + 1)]
    kept = graph.dependencies.where(graph.dependencies.kinds != DependencyKind.ORDER)
    return replace(
        graph,
        resources=(*(graph.resources[i] for i in others), *streams),
        resource_ids=ids,
        dependencies=Dependencies.joined([order_on_resources(ids, gaps_s), kept]),
    )


def _chains(graph: KernelGraph, device: Positions) -> list[list[int]]:
    """Chains of tasks that cover the device's, by a maximum matching of the minimum equivalent graph."""
    number = np.full(len(graph), -1)
    number[device] = np.arange(len(device))
    edges = graph.dependencies
    data = np.isin(edges.kinds, _DATA) & (number[edges.sources] >= 0) & (number[edges.targets] >= 0)
    links = minimum_equivalent(len(device), number[edges.sources[data]], number[edges.targets[data]])
    n = len(device)
    rows, columns = np.array(links, dtype=np.intp).reshape(-1, 2).T
    square = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(n, n)).tocsr()
    after = maximum_bipartite_matching(square, perm_type="column").tolist()
    heads = sorted(set(range(n)) - set(after))
    return [[int(device[each]) for each in _chain(head, after)] for head in heads]


def _chain(task: int, after: Sequence[int]) -> list[int]:
    found = [task]
    while (task := after[task]) >= 0:
        found.append(task)
    return found


def minimum_equivalent(n: int, sources: Positions, targets: Positions) -> list[tuple[int, int]]:
    """Keep the dependencies of tasks, numbered in a topological order, that no others imply."""
    first, successors = group_values(n, sources, targets)
    reached, kept = [0] * n, []
    for task in range(n - 1, -1, -1):
        bits = 0
        for successor in sorted(set(successors[first[task] : first[task + 1]])):  # the nearest first
            if not bits >> successor & 1:
                kept.append((task, successor))
                bits |= reached[successor] | 1 << successor
        reached[task] = bits
    return kept


def _share_out(
    chains: list[list[int]], durations_s: "np.ndarray[tuple[int], np.dtype[np.float64]]", streams: int
) -> tuple[Positions, int]:
    """``(n,)`` stream of each task, -1 for those of no chain, and how many streams are used."""
    stream_of = np.full(len(durations_s), -1)
    work = [float(durations_s[chain].sum()) for chain in chains]
    loads = [0.0] * min(streams, len(chains))
    for i in sorted(range(len(chains)), key=lambda i: -work[i]):
        least = loads.index(min(loads))
        stream_of[chains[i]] = least
        loads[least] += work[i]
    return stream_of, len(loads)
