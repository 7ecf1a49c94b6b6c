"""Kernels on as many streams as pay: list scheduling by the critical path, on SMs that kernels share.

Reference:
    H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity task scheduling for
    heterogeneous computing, IEEE TPDS 13(3), 2002: tasks in the order of their longest way to the end.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.arguments import check_whole
from costmodel.planner._replay import replay
from costmodel.planner.graphs._kernel_graph import KernelGraph, group_values
from costmodel.planner.whatif._sharing import WAIT_S, Contention, Machine, Sharing, beside_others, first_come
from costmodel.planner.whatif._streams import put_on_streams, sort_by_start, take_off_streams
from costmodel.planner.whatif._transform import check_positive

MOST_STREAMS = 8
# Less is not worth it. More was lost in none of 206 graphs if kernels behave otherwise: experiments/streams.
_LEAST_GAIN = 0.02
# Orders that are tried, and kernels in all of them together: some seconds.
_TRIED_ORDERS, _TRIED_KERNELS = 300, 100_000
# How far the urgency of kernels in an attempt is from that in the best so far.
_SPREAD = 0.3


@dataclass(frozen=True)
class StreamSchedule:
    """Which stream runs which kernel when.

    Attributes:
        stream_of: ``(n,)`` -1 for tasks of the host.
        starts_s: ``(n,)`` seconds.
        makespan_s: Until the last kernel ends.
    """

    stream_of: Sequence[int]
    starts_s: Sequence[float]
    makespan_s: float


@dataclass(frozen=True)
class Kernels:
    """What is scheduled, and on what.

    Attributes:
        graph: Tasks in topological order; kernels have no streams.
        needs: Kernels that each needs, also those that the host waits for before it launches it.
        gaps_s: ``(n,)`` seconds that pass since the one before on its stream.
        ready_s: ``(n,)`` when the host could have launched them.
        contention: Tells of a graph what kernels that run at once take.
        wait_s: Seconds from the end of a kernel to the start of one of another stream that needs it.
    """

    graph: KernelGraph
    needs: list[list[int]]
    gaps_s: list[float]
    ready_s: list[float]
    contention: Contention = first_come
    wait_s: float = WAIT_S

    @classmethod
    def of(
        cls, graph: KernelGraph, *, contention: Contention = first_come, wait_s: float = WAIT_S
    ) -> "Kernels":
        """Make those of a graph that says what they need.

        Raises:
            CostModelError: It does not, or has too many tasks.
        """
        graph, gaps_s = take_off_streams(graph)
        edges, device = graph.dependencies, graph.on_device
        calls = edges.where(~device[edges.sources] & device[edges.targets])
        since = replay(graph).starts_s[calls.sources]
        since += np.where(calls.from_start, 0.0, graph.durations_s[calls.sources])
        ready = np.zeros(len(graph))
        np.maximum.at(ready, calls.targets, since + calls.lags_s)
        return cls(
            graph, _needs(graph), gaps_s.tolist(), ready.tolist(), contention, check_positive(wait_s, "wait")
        )

    @cached_property
    def tasks(self) -> list[int]:
        """Kernels, copies and memsets."""
        found: list[int] = np.flatnonzero(self.graph.on_device).tolist()
        return found

    @cached_property
    def sharing(self) -> Sharing:
        """What kernels that run at once do to each other."""
        return Sharing.of(self.graph, self.contention)

    @cached_property
    def successors(self) -> list[list[int]]:
        """What needs each."""
        found: list[list[int]] = [[] for _ in self.needs]
        for task, needs in enumerate(self.needs):
            for needed in needs:
                found[needed].append(task)
        return found

    @cached_property
    def seconds_to_end(self) -> list[float]:
        """``(n,)`` of the longest chain from the start of each, if all run as fast as alone."""
        found: list[float] = self.graph.durations_s.tolist()
        for task in reversed(self.tasks):
            found[task] += max((found[each] for each in self.successors[task]), default=0.0)
        return found


def _needs(graph: KernelGraph) -> list[list[int]]:
    """Kernels that each kernel waits for, itself or through tasks of the host; nothing for these."""
    first, sources = group_values(len(graph), graph.dependencies.targets, graph.dependencies.sources)
    on_device = graph.on_device.tolist()
    found: list[set[int]] = []
    for task in range(len(graph)):
        waited = sources[first[task] : first[task + 1]]
        found.append(set[int]().union(*({each} if on_device[each] else found[each] for each in waited)))
    return [sorted(each) if kernel else [] for each, kernel in zip(found, on_device, strict=True)]


def on_best_streams(
    graph: KernelGraph,
    *,
    most: int = MOST_STREAMS,
    wait_s: float = WAIT_S,
    contention: Contention = first_come,
) -> KernelGraph:
    """Distribute kernels, copies and memsets over the fastest number of streams; one if more gain nothing.

    Args:
        graph: A graph that contains data dependencies between tasks: ``after`` in your own JSON.
        most: Maximum number of streams.
        wait_s: Seconds from the end of a kernel to the start of a dependent kernel on another stream.
        contention: Computes, for a graph, the durations of kernels that run at the same time. Default: first
            come, first served.

    Raises:
        CostModelError: If the graph has no data dependencies (as with a trace) or too many tasks, or an
            argument is invalid.
    """
    check_whole("most", most, 1)
    kernels = Kernels.of(graph, contention=contention, wait_s=wait_s)
    schedule = best_schedule(kernels, most)
    used = len(set(schedule.stream_of) - {-1})
    if used < 2:
        return apply_schedule(kernels, schedule).assuming(
            f"{len(kernels.tasks):,} kernels stay on one stream: more gain less than {100 * _LEAST_GAIN:g} %."
        )
    return beside_others(apply_schedule(kernels, schedule), wait_s=wait_s, contention=contention).assuming(
        f"{len(kernels.tasks):,} kernels are on {used:,} of up to {most:,} streams, by the critical path."
    )


def best_schedule(kernels: Kernels, most: int = MOST_STREAMS) -> StreamSchedule:
    """Find the best of lists by the critical path on each number of streams, and of lists near to the best.

    Args:
        kernels: What is scheduled.
        most: Streams at most.
    """
    urgency = kernels.seconds_to_end
    one, *others = (schedule_by_urgency(kernels, streams, urgency) for streams in range(1, most + 1))
    streams, best = min(enumerate([one, *others], 1), key=lambda each: each[1].makespan_s)
    draw = np.random.default_rng(0)
    for _ in range(min(_TRIED_ORDERS, _TRIED_KERNELS // max(len(kernels.tasks), 1)) if streams > 1 else 0):
        other = (np.array(urgency) * (1 + _SPREAD * draw.standard_normal(len(urgency)))).tolist()
        tried = schedule_by_urgency(kernels, streams, other)
        if tried.makespan_s < best.makespan_s:
            best, urgency = tried, other
    return best if best.makespan_s < one.makespan_s * (1 - _LEAST_GAIN) else one


def schedule_by_urgency(kernels: Kernels, streams: int, urgency: Sequence[float]) -> StreamSchedule:
    """Start kernels as soon as what they need is done and a stream is free, the most urgent first.

    What the host did not launch yet waits for what it did.

    Args:
        kernels: What is scheduled.
        streams: Streams at most.
        urgency: ``(n,)``.
    """
    return _List(kernels, streams, urgency).schedule()


class _List:
    """One pass over the list.

    Attributes:
        last: The last kernel of each stream.
        free: Streams that run nothing.
        coming: Kernels that need nothing but their launch, the first to be launched first.
        pool: Kernels that could start, the most urgent first.
    """

    def __init__(self, kernels: Kernels, streams: int, urgency: Sequence[float]) -> None:
        n = len(kernels.graph)
        self.kernels, self.urgency = kernels, urgency
        self.machine = Machine(kernels.sharing)
        self.stream_of, self.starts_s, self.ends_s = [-1] * n, [0.0] * n, [0.0] * n
        self.last: list[int | None] = [None] * streams
        self.free = list(range(streams))
        self.coming: list[tuple[float, float, int]] = []
        self.pool: list[tuple[float, int]] = []

    def schedule(self) -> StreamSchedule:
        waiting = [len(each) for each in self.kernels.needs]
        self._start([task for task in self.kernels.tasks if not waiting[task]])
        while (ended := self.machine.next_end()) is not None:
            self.ends_s[ended] = self.machine.now_s
            self.free.append(self.stream_of[ended])
            for successor in self.kernels.successors[ended]:
                waiting[successor] -= 1
            self._start([each for each in self.kernels.successors[ended] if not waiting[each]])
        return StreamSchedule(self.stream_of, self.starts_s, self.machine.now_s)

    def _start(self, ready: Sequence[int]) -> None:
        """Start the most urgent kernels, as many as there are free streams."""
        for task in set(ready):
            heapq.heappush(self.coming, (self.kernels.ready_s[task], -self.urgency[task], task))
        while self.coming and self.coming[0][0] <= self.machine.now_s:
            heapq.heappush(self.pool, heapq.heappop(self.coming)[1:])
        while (self.pool or self.coming) and self.free:
            task = heapq.heappop(self.pool)[-1] if self.pool else heapq.heappop(self.coming)[-1]
            stream = self._stream(task)
            self.starts_s[task] = max(self.machine.now_s, self._earliest_s(task, stream))
            self.stream_of[task], self.last[stream] = stream, task
            self.free.remove(stream)
            self.machine.start(task, self.starts_s[task])

    def _stream(self, task: int) -> int:
        """The free stream on which a kernel starts first; of several, one that was not used or not lately."""

        def cost(stream: int) -> tuple[float, float]:
            last = self.last[stream]
            return self._earliest_s(task, stream), -1.0 if last is None else self.ends_s[last]

        return min(self.free, key=cost)

    def _earliest_s(self, task: int, stream: int) -> float:
        last = self.last[stream]
        since = 0.0 if last is None else self.ends_s[last] + self.kernels.gaps_s[task]
        waits = (
            self.ends_s[each] + self.kernels.wait_s
            for each in self.kernels.needs[task]
            if self.stream_of[each] != stream
        )
        return max(self.kernels.ready_s[task], since, *waits)


def apply_schedule(kernels: Kernels, schedule: StreamSchedule) -> KernelGraph:
    """Put the kernels of a graph on the streams of a schedule, where they take what they take alone."""
    of_host = replay(kernels.graph).starts_s
    starts = np.where(kernels.graph.on_device, schedule.starts_s, of_host)
    # Kernels that start at the same time find room in the order in which the list gave it to them.
    graph, by_start = sort_by_start(kernels.graph, starts, np.arange(len(starts)))
    used = np.unique(schedule.stream_of)
    number = {stream: i for i, stream in enumerate(used[used >= 0].tolist())} | {-1: -1}
    stream_of = np.array([number[schedule.stream_of[task]] for task in by_start.tolist()])
    return put_on_streams(graph, stream_of, np.array(kernels.gaps_s)[by_start])
