"""Several ranks as one graph: their recordings, with collectives in which each waits for the others.

A collective is a kernel of each rank that ends once all have arrived and the data has moved. So the one that
arrives last shows what moving takes, and the others wait for it first. In the merged graph each rank
*arrives* (a task that takes no time), and its kernel starts when all have, and takes what moving took.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.planner._replay import Timeline, busy_s
from costmodel.planner.graphs._kernel_class import KernelClass
from costmodel.planner.graphs._kernel_graph import Dependencies, DependencyKind, KernelGraph, TaskKind
from costmodel.planner.graphs._recorded_graph import Inspection, RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._kernel_time import find_collectives
from costmodel.planner.whatif._transform import select_tasks
from costmodel.reading import detect

T = TypeVar("T")

ARRIVAL = "(arrives at a collective)"
# Formats of files that can be traces, beside all JSON: one that is damaged is not passed over.
_TRACES = ("chrome-trace", "profiler-database", "nsys", "rocprof")
_POINT_TO_POINT = "sendrecv"


def read_ranks(folder: Path, within: str = "") -> RecordedGraph:
    """Read a folder of traces, one of each rank, as one graph; see ``merge_ranks``.

    Args:
        folder: Folder with a file of each rank, of any profiler that ``read_kineto`` reads; files of other
            formats are passed over.
        within: Annotation of the part of each trace to read.

    Raises:
        CostModelError: If there are fewer than two traces, one cannot be read, or two are of one rank.
    """
    files = sorted(filter(_can_be_trace, folder.iterdir()))
    if len(files) < 2:
        raise CostModelError(
            f"A folder of ranks must hold a trace of each of them, but {folder} has {len(files)}. Give the "
            "file of a trace to plan a single process."
        )
    recordings = [_read_rank(file, within) for file in files]
    told = Counter(each.rank for each in recordings if each.rank is not None)
    twice = [rank for rank, count in told.items() if count > 1]
    if twice:
        of_it = [file.name for file, each in zip(files, recordings, strict=True) if each.rank == twice[0]]
        raise CostModelError(
            f"Each trace of {folder} must be of another rank, but {', '.join(of_it)} are of rank {twice[0]}. "
            "Remove those of other runs."
        )
    if len(told) < len(files):  # some do not say it: in the order of their names
        recordings = [replace(each, rank=rank) for rank, each in enumerate(recordings)]
    return merge_ranks(recordings)


def _read_rank(file: Path, within: str) -> RecordedGraph:
    """Read the trace of one rank; what is wrong with it is said of its file."""
    try:
        return read_kineto(file, within)
    except CostModelError as error:
        said = str(error)
        raise CostModelError(said if str(file) in said else f"{file}: {said}") from error


def _can_be_trace(file: Path) -> bool:
    if not file.is_file():
        return False
    if file.name.endswith((".json", ".json.gz")):
        return True
    found = detect(file)
    return found is not None and found.key in _TRACES


def merge_ranks(recordings: Sequence[RecordedGraph]) -> RecordedGraph:
    """Merge the recordings of several ranks into one graph.

    Collectives belong together by their process group and their order within it; of traces that do not tell
    groups, by their order. Clocks are aligned by the ends of collectives. Sends and receives between two
    ranks stay what each of them recorded.

    Args:
        recordings: One of each rank.
    """
    recordings = sorted(recordings, key=lambda each: each.rank or 0)
    matched, unmatched = _match(recordings)
    offsets_s = _align(recordings, matched)
    first = np.concatenate([[0], np.cumsum([len(each.graph) for each in recordings])])
    members = [first[ranks] + tasks for ranks, tasks in matched]
    joined = _join([each.graph for each in recordings], [each.rank or 0 for each in recordings], offsets_s)
    starts_s = np.concatenate(
        [each.starts_s + offset for each, offset in zip(recordings, offsets_s, strict=True)]
    )
    graph, starts_s = _with_arrivals(joined, starts_s, members)
    counts = sum((Counter(each.inspection.counts) for each in recordings), Counter())
    unknown = [*_said_of_missing(recordings), *_said_of_ranks(recordings)]
    events = sum(each.inspection.events for each in recordings)
    inspection = Inspection(events, len(graph), dict(counts), (*unknown, *unmatched))
    return RecordedGraph(graph, starts_s, inspection)


def _said_of_missing(recordings: Sequence[RecordedGraph]) -> list[str]:
    """Say how many ranks have no trace here, of as many as the traces tell."""
    size = max((each.world_size for each in recordings), default=0)
    if size <= len(recordings):
        return []
    missing = size - len(recordings)
    return [
        f"{missing:,} of {size:,} ranks {'is' if missing == 1 else 'are'} missing: what others waited for "
        f"{'it' if missing == 1 else 'them'} counts as moving data."
    ]


def _said_of_ranks(recordings: Sequence[RecordedGraph]) -> list[str]:
    """What was found in the recordings, each sentence once, with the ranks that it is said of."""
    ranks = defaultdict[str, list[int | None]](list)
    for each in recordings:
        for said in each.inspection.unknown:
            ranks[said].append(each.rank)
    return [
        f"{'all ranks' if len(of) == len(recordings) else 'rank ' + ', '.join(map(str, of))}: {said}"
        for said, of in ranks.items()
    ]


def rank_table(timeline: Timeline) -> pd.DataFrame:
    """Show what each rank of a merged graph computes, and what it waits and moves data for.

    Columns, in seconds: ``rank``; ``compute_s`` in which it computes or copies; ``collective_s`` in which it
    moves data with others; ``waited_s`` for others that arrive later; ``exposed_s`` of the two in which it
    computes nothing; and ``last_share``, the share of its collectives at which it arrived last. Without rows
    if the graph is of one process.
    """
    graph = timeline.graph
    of_task = np.array([-1 if each.rank is None else each.rank for each in graph.resources])[
        graph.resource_ids
    ]
    is_collective = find_collectives(graph)
    _, kernels = _find_arrivals(graph)
    begun_s = begin_collectives(timeline)
    waited_s = timeline.starts_s - begun_s
    rows = []
    for rank in np.unique(of_task[of_task >= 0]).tolist():
        own = of_task == rank
        moving = own & is_collective
        computing = own & graph.on_device & ~is_collective
        either = moving | computing
        compute_s = busy_s(begun_s[computing], timeline.ends_s[computing])
        rows.append(
            {
                "rank": rank,
                "compute_s": compute_s,
                "collective_s": busy_s(timeline.starts_s[moving], timeline.ends_s[moving]),
                "waited_s": float(waited_s[moving].sum()),
                "exposed_s": busy_s(begun_s[either], timeline.ends_s[either]) - compute_s,
                "last_share": float((waited_s[kernels[own[kernels]]] <= 0).mean())
                if own[kernels].any()
                else 0.0,
            }
        )
    return pd.DataFrame(rows)


def begin_collectives(timeline: Timeline) -> FloatArray:
    """Tell ``(n,)`` seconds since when tasks are on their device: collectives since their rank arrived."""
    begun_s = timeline.starts_s.copy()
    arrivals, kernels = _find_arrivals(timeline.graph)
    begun_s[kernels] = timeline.starts_s[arrivals]
    return begun_s


RANK_COLUMNS = ("rank", "computes us", "moves us", "waits us", "exposed us", "arrives last %")
_SHOWN = ("compute_s", "collective_s", "waited_s", "exposed_s")


def shown_ranks(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of a table of ranks as texts, in the order of ``RANK_COLUMNS``."""
    return [
        (
            f"{row['rank']:.0f}",
            *(f"{1e6 * row[name]:,.1f}" for name in _SHOWN),
            f"{100 * row['last_share']:.0f}",
        )
        for row in table.to_dict(orient="records")
    ]


_Matched = list[tuple[Positions, Positions]]


def _match(recordings: Sequence[RecordedGraph]) -> tuple[_Matched, list[str]]:
    """Collectives as the positions of their recordings and their tasks there; and what does not match."""
    found: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for place, recording in enumerate(recordings):
        graph = recording.graph
        for task in np.flatnonzero(find_collectives(graph)).tolist():
            if _POINT_TO_POINT not in graph.name(task).lower():
                found[recording.groups.get(task, "")].setdefault(place, []).append(task)
    matched, unmatched = _Matched(), []
    for group, tasks in found.items():
        counts = {recordings[place].rank: len(own) for place, own in tasks.items()}
        if len(set(counts.values())) > 1:
            unmatched.append(
                f"Ranks have different numbers of collectives of group {group or '(untold)'} ({counts}): "
                "each is left as its rank recorded it."
            )
        elif len(tasks) > 1:
            places = np.array(sorted(tasks))
            matched += [(places, np.array(each)) for each in zip(*(tasks[i] for i in places), strict=True)]
    return matched, unmatched


def _align(recordings: Sequence[RecordedGraph], matched: _Matched) -> FloatArray:
    """Seconds to add to the times of each recording, so that collectives end together; none is negative."""
    ends_s = [each.starts_s + each.graph.durations_s for each in recordings]
    apart: dict[tuple[int, int], list[float]] = defaultdict(list)
    for places, tasks in matched:
        ends = [ends_s[place][task] for place, task in zip(places, tasks, strict=True)]
        for place, end in zip(places[1:].tolist(), ends[1:], strict=True):
            apart[int(places[0]), place].append(ends[0] - end)
    offsets_s = np.full(len(recordings), np.nan)
    for start in range(len(recordings)):
        if np.isnan(offsets_s[start]):
            offsets_s[start] = 0.0
        for _ in recordings:
            for (one, other), differences in apart.items():
                difference = float(np.median(differences))
                if np.isnan(offsets_s[other]) and not np.isnan(offsets_s[one]):
                    offsets_s[other] = offsets_s[one] + difference
                elif np.isnan(offsets_s[one]) and not np.isnan(offsets_s[other]):
                    offsets_s[one] = offsets_s[other] - difference
    aligned: FloatArray = offsets_s - offsets_s.min()
    return aligned


def _join(graphs: Sequence[KernelGraph], ranks: Sequence[int], offsets_s: FloatArray) -> KernelGraph:
    """All graphs side by side, their resources named after their ranks."""
    first = np.concatenate([[0], np.cumsum([len(each) for each in graphs])])[:-1].tolist()

    def together(column: str) -> NDArray[Any]:
        return np.concatenate([getattr(each, column) for each in graphs])

    named = [tuple(zip(each.names, each.classes, each.operators, strict=True)) for each in graphs]
    names, name_ids = _coded(named, [each.name_ids for each in graphs])
    scopes, scope_ids = _coded([each.scopes for each in graphs], [each.scope_ids for each in graphs])
    workloads, workload_ids = _coded(
        [each.workloads for each in graphs], [each.workload_ids for each in graphs]
    )
    of_rank = [
        tuple(replace(each, name=f"rank {rank} {each.name}", rank=rank) for each in graph.resources)
        for graph, rank in zip(graphs, ranks, strict=True)
    ]
    resources, resource_ids = _coded(of_rank, [each.resource_ids for each in graphs])
    edges = [
        replace(
            each.dependencies, sources=each.dependencies.sources + at, targets=each.dependencies.targets + at
        )
        for each, at in zip(graphs, first, strict=True)
    ]
    # Only what waits for nothing has a start of its own.
    begins_s = [
        np.where(
            np.bincount(each.dependencies.targets, minlength=len(each)) == 0, each.ready_s + offset_s, 0.0
        )
        for each, offset_s in zip(graphs, offsets_s.tolist(), strict=True)
    ]
    devices = {each.device for each in graphs}
    return replace(
        graphs[0],
        names=tuple(name for name, _, _ in names),
        classes=tuple(each for _, each, _ in names),
        operators=tuple(operator for _, _, operator in names),
        name_ids=name_ids,
        kinds=together("kinds"),
        resources=resources,
        resource_ids=resource_ids,
        durations_s=together("durations_s"),
        ready_s=np.concatenate(begins_s),
        sms=together("sms"),
        blocks=together("blocks"),
        block_warps=together("block_warps"),
        sm_blocks=together("sm_blocks"),
        scopes=scopes,
        scope_ids=scope_ids,
        workloads=workloads,
        workload_ids=workload_ids,
        dependencies=Dependencies.joined(edges),
        device=devices.pop() if len(devices) == 1 else None,
    )


def _coded(
    lists: Sequence[tuple[T, ...]], ids: Sequence[NDArray[np.int32]]
) -> tuple[tuple[T, ...], NDArray[np.int32]]:
    """One list of what several hold, and the positions in it of what had positions in these."""
    places: dict[T, int] = {}
    codes = [np.array([places.setdefault(each, len(places)) for each in values]) for values in lists]
    moved = [code[own] for code, own in zip(codes, ids, strict=True)]
    return tuple(places), np.concatenate(moved).astype(np.int32)


def _with_arrivals(
    graph: KernelGraph, starts_s: FloatArray, members: Sequence[Positions]
) -> tuple[KernelGraph, FloatArray]:
    """Put an arrival before the kernel of each rank of a collective, for which all of its kernels wait."""
    if not members:
        return graph, starts_s
    kernels = np.sort(np.concatenate(members))
    place = np.arange(len(graph)) + np.searchsorted(kernels, np.arange(len(graph)), side="right")
    arrivals = place[kernels] - 1
    source = np.empty(len(graph) + len(kernels), dtype=np.intp)  # what a task was, an arrival its kernel
    source[place], source[arrivals] = np.arange(len(graph)), kernels
    is_arrival = np.zeros(len(source), dtype=bool)
    is_arrival[arrivals] = True

    durations_s, begun_s = graph.durations_s.copy(), starts_s.copy()
    waits = list[tuple[int, int]]()
    for ranks in members:
        durations_s[ranks] = graph.durations_s[ranks].min()
        begun_s[ranks] = starts_s[ranks].max()
        own = place[ranks].tolist()
        waits += [(one - 1, other) for one in own for other in own if one != other]
    before_kernel = np.isin(np.arange(len(graph)), kernels)
    edges = graph.dependencies
    moved = replace(
        edges, sources=place[edges.sources], targets=place[edges.targets] - before_kernel[edges.targets]
    )
    pairs = np.array(waits, dtype=np.intp).reshape(-1, 2)
    order = Dependencies.of(arrivals, arrivals + 1, DependencyKind.ORDER)
    together = Dependencies.of(pairs[:, 0], pairs[:, 1], DependencyKind.DATA)
    named = select_tasks(graph, source, Dependencies.joined([moved, order, together]))
    classes = (*graph.classes, KernelClass())
    arranged = replace(
        named,
        names=(*graph.names, ARRIVAL),
        classes=classes,
        operators=(*graph.operators, ""),
        name_ids=np.where(is_arrival, len(graph.names), named.name_ids).astype(np.int32),
        kinds=np.where(is_arrival, TaskKind.SYNC, named.kinds).astype(np.int8),
        durations_s=np.where(is_arrival, 0.0, durations_s[source]),
        # A kernel without a launch had a start of its own, which is now that of its arrival.
        ready_s=np.where(before_kernel[source] & ~is_arrival, 0.0, named.ready_s),
        blocks=np.where(is_arrival, 0, named.blocks),
        workload_ids=np.where(is_arrival, 0, named.workload_ids).astype(np.int32),
    )
    return (
        arranged.assuming(
            f"{len(members):,} collectives start when all of their ranks have arrived, and take what the "
            "rank took that waited least."
        ),
        np.where(is_arrival, starts_s[source], begun_s[source]),
    )


def _find_arrivals(graph: KernelGraph) -> tuple[Positions, Positions]:
    """Arrivals, and the kernels that follow them."""
    is_arrival = np.array([name == ARRIVAL for name in graph.names])[graph.name_ids]
    edges = graph.dependencies
    follows = is_arrival[edges.sources] & (edges.kinds == DependencyKind.ORDER)
    return edges.sources[follows], edges.targets[follows]
