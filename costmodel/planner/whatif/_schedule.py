"""Kernels on as many streams as pay: list scheduling by the critical path, on SMs that kernels share.

Reference:
    H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-effective and low-complexity task scheduling for
    heterogeneous computing, IEEE TPDS 13(3), 2002: tasks in the order of their longest way to the end.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from costmodel.planner.graphs import KernelGraph
from costmodel.planner.replay import replay
from costmodel.planner.whatif._base import positive
from costmodel.planner.whatif._sharing import WAIT_S, Contention, Machine, Slowdown, beside_others, shared_out
from costmodel.planner.whatif._streams import in_time, placed, without_streams

MOST_STREAMS = 8
# Less is not worth it: predictions are not better than that.
_LEAST_GAIN = 0.02
# Orders that are tried, and kernels in all of them together: some seconds.
_TRIED_ORDERS, _TRIED_KERNELS = 300, 100_000
# How far the order of an attempt may be from that of the best so far.
_SPREAD = 0.3
# How often an attempt keeps the rule that was best.
_SAME_RULE = 0.5


@dataclass(frozen=True)
class Schedule:
    """Which stream runs which kernel when; both are ``(n,)``.

    Attributes:
        stream_of: -1 for tasks of the host.
        starts_s: Seconds.
        makespan_s: Until the last kernel ends.
    """

    stream_of: Sequence[int]
    starts_s: Sequence[float]
    makespan_s: float


@dataclass(frozen=True)
class Rule:
    """How a list of kernels is worked through.

    Attributes:
        streams: Streams at most.
        patience_s: A kernel waits for the stream of what it needs if that will be free so soon.
        fills: Whether kernels start while others keep all SMs busy.
    """

    streams: int
    patience_s: float
    fills: bool


@dataclass(frozen=True)
class Kernels:
    """What is scheduled, and on what.

    Attributes:
        graph: Tasks in topological order; kernels have no streams.
        needs: Kernels that each needs.
        gaps_s: ``(n,)`` seconds that pass since the one before on its stream.
        ready_s: ``(n,)`` when the host could have launched them.
        contention: Tells of a graph what kernels that work at once take.
        wait_s: Seconds that a kernel waits for one of another stream.
    """

    graph: KernelGraph
    needs: list[list[int]]
    gaps_s: list[float]
    ready_s: list[float]
    contention: Contention
    wait_s: float

    @classmethod
    def of(cls, graph: KernelGraph, wait_s: float = WAIT_S, contention: Contention = shared_out) -> "Kernels":
        """Those of a graph that says what they need."""
        graph, gaps_s = without_streams(graph)
        edges, device = graph.dependencies, graph.on_device
        needs: list[list[int]] = [[] for _ in range(len(graph))]
        between = edges.where(device[edges.sources] & device[edges.targets])
        for source, target in zip(between.sources.tolist(), between.targets.tolist(), strict=True):
            needs[target].append(source)
        calls = edges.where(~device[edges.sources] & device[edges.targets])
        starts = replay(graph).starts_s
        ended = starts[calls.sources] + np.where(calls.from_start, 0, graph.durations_s[calls.sources])
        ready = np.zeros(len(graph))
        np.maximum.at(ready, calls.targets, ended + calls.lags_s)
        return cls(graph, needs, gaps_s.tolist(), ready.tolist(), contention, wait_s)

    @cached_property
    def tasks(self) -> list[int]:
        """Kernels, copies and memsets."""
        found: list[int] = np.flatnonzero(self.graph.on_device).tolist()
        return found

    @cached_property
    def alone_s(self) -> list[float]:
        """``(n,)`` what each takes alone."""
        found: list[float] = self.graph.durations_s.tolist()
        return found

    @cached_property
    def slowdown(self) -> Slowdown:
        """Of kernels that work at once."""
        return self.contention(self.graph)

    @cached_property
    def successors(self) -> list[list[int]]:
        """What needs each."""
        found: list[list[int]] = [[] for _ in self.needs]
        for task, needs in enumerate(self.needs):
            for needed in needs:
                found[needed].append(task)
        return found

    def seconds_to_end(self) -> list[float]:
        """``(n,)`` of the longest chain from the start of each, alone."""
        found, alone = list(self.alone_s), self.alone_s
        behind = [0.0] * len(found)
        for task in range(len(found) - 1, -1, -1):
            found[task] = alone[task] + behind[task]
            for needed in self.needs[task]:
                behind[needed] = max(behind[needed], found[task])
        return found


def on_best_streams(
    graph: KernelGraph,
    *,
    most: int = MOST_STREAMS,
    wait_s: float = WAIT_S,
    contention: Contention = shared_out,
) -> KernelGraph:
    """Kernels, copies and memsets on as many streams as pay, on one if others gain nothing."""
    kernels = Kernels.of(graph, positive(wait_s, "wait"), contention)
    return scheduled(kernels, best_schedule(kernels, most))


def best_schedule(kernels: Kernels, most: int) -> Schedule:
    priority = kernels.seconds_to_end()
    one = listed(kernels, Rule(1, 0.0, fills=True), priority)
    rules = [
        Rule(streams, patience * kernels.wait_s, fills)
        for streams, patience, fills in product(range(2, most + 1), (0.0, 1.0, 3.0), (True, False))
    ]
    found = [(listed(kernels, rule, priority), rule) for rule in rules]
    best, rule = min(found, key=lambda each: each[0].makespan_s)
    draw = np.random.default_rng(0)
    for _ in range(min(_TRIED_ORDERS, _TRIED_KERNELS // max(len(kernels.tasks), 1))):
        tried = (np.array(priority) * (1 + _SPREAD * draw.standard_normal(len(priority)))).tolist()
        other = rule if draw.random() < _SAME_RULE else rules[draw.integers(len(rules))]
        schedule = listed(kernels, other, tried)
        if schedule.makespan_s < best.makespan_s:
            best, priority = schedule, tried
    return best if best.makespan_s < one.makespan_s * (1 - _LEAST_GAIN) else one


def listed(kernels: Kernels, rule: Rule, priority: Sequence[float]) -> Schedule:
    """Kernels started as soon as a stream is free and all that they need is there, the most urgent first."""
    return _Listing(kernels, rule, priority).schedule()


class _Listing:
    """One pass over the list.

    Attributes:
        lines: Kernels of each stream that have not ended, the running one first.
        last: The last kernel of each stream that was started.
    """

    def __init__(self, kernels: Kernels, rule: Rule, priority: Sequence[float]) -> None:
        n = len(kernels.graph)
        self.kernels, self.rule, self.priority = kernels, rule, priority
        self.machine = Machine(kernels.graph, kernels.slowdown)
        self.stream_of = [-1] * n
        self.starts_s, self.ends_s = [0.0] * n, [0.0] * n
        self.lines: list[list[int]] = []
        self.last: list[int] = []
        self.pool: list[tuple[float, int]] = []

    def schedule(self) -> Schedule:
        waiting = [len(each) for each in self.kernels.needs]
        self._give([task for task in self.kernels.tasks if not waiting[task]])
        while (ended := self.machine.next_end()) is not None:
            self.ends_s[ended] = self.machine.now_s
            line = self.lines[self.stream_of[ended]]
            line.pop(0)
            if line:
                self._start(line[0])
            ready = []
            for successor in self.kernels.successors[ended]:
                waiting[successor] -= 1
                if not waiting[successor]:
                    ready.append(successor)
            self._give(ready)
        return Schedule(self.stream_of, self.starts_s, max(self.ends_s, default=0.0))

    def _give(self, ready: Sequence[int]) -> None:
        """Put the most urgent kernels on streams until no stream is free."""
        for task in ready:
            heapq.heappush(self.pool, (-self.priority[task], task))
        while self.pool and (len(self.lines) < self.rule.streams or not all(self.lines)):
            _, task = heapq.heappop(self.pool)
            stream = self._stream(task)
            self.stream_of[task] = stream
            self.lines[stream].append(task)
            if len(self.lines[stream]) == 1:
                self._start(task)

    def _stream(self, task: int) -> int:
        """The free stream of what was needed last; else one that is free soon enough; else any free one."""
        needs = self.kernels.needs[task]
        free = [stream for stream, line in enumerate(self.lines) if not line]
        own = [stream for stream in free if self.last[stream] in needs]
        if own:
            return max(own, key=lambda stream: self.ends_s[self.last[stream]])
        if self.rule.fills or not self.machine.is_full():
            busy = {self.stream_of[each] for each in needs} - set(free)
            soon = self.rule.patience_s
        else:
            busy, soon = set(range(len(self.lines))) - set(free), np.inf
        left = {stream: self._left_s(stream) for stream in sorted(busy)}
        if left and min(left.values()) < soon:
            return min(left, key=lambda stream: left[stream])
        if len(self.lines) < self.rule.streams:
            self.lines.append([])
            self.last.append(-1)
            return len(self.lines) - 1
        return min(free, key=lambda stream: self.ends_s[self.last[stream]])

    def _left_s(self, stream: int) -> float:
        first, *others = self.lines[stream]
        return self.machine.left_s(first) + sum(self.kernels.alone_s[task] for task in others)

    def _start(self, task: int) -> None:
        stream, moment = self.stream_of[task], max(self.machine.now_s, self.kernels.ready_s[task])
        if self.last[stream] >= 0:
            moment = max(moment, self.ends_s[self.last[stream]] + self.kernels.gaps_s[task])
        for needed in self.kernels.needs[task]:
            if self.stream_of[needed] != stream:
                moment = max(moment, self.ends_s[needed] + self.kernels.wait_s)
        self.starts_s[task] = moment
        self.last[stream] = task
        self.machine.start(task, moment)


def scheduled(kernels: Kernels, schedule: Schedule) -> KernelGraph:
    """The graph with its kernels on the streams of a schedule, and what they take there."""
    graph = kernels.graph
    starts = np.where(graph.on_device, schedule.starts_s, replay(graph).starts_s)
    graph, by_start = in_time(graph, starts)
    stream_of = np.array(schedule.stream_of)[by_start]
    placed_graph = placed(graph, stream_of, np.array(kernels.gaps_s)[by_start])
    return beside_others(placed_graph, wait_s=kernels.wait_s, contention=kernels.contention)
