"""What kernels of several streams take while they share the SMs of one device."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs import KernelGraph, TaskKind, grouped
from costmodel.planner.whatif._base import positive
from costmodel.planner.whatif._bounds import START_S, sm_share

# Of tasks that work at once, how many times as long as alone the work of each takes.
Slowdown = Callable[[Sequence[int]], Sequence[float]]
# Tells that for the tasks of a graph, by their positions.
Contention = Callable[[KernelGraph], Slowdown]
# Seconds from the end of a kernel of a CUDA graph to the start of one of another stream that needs it. Taken
# for granted: experiments/streams/measure.py measures it.
WAIT_S = 1.0e-6
# What is left of a task's work when it counts as done, beside rounding.
_DONE_S = 1e-15


def shared_out(graph: KernelGraph) -> Slowdown:
    """All take longer by as much as they want more SMs than there are: who fills them gains nothing."""
    share = sm_share(graph).tolist()

    def slowdown(tasks: Sequence[int]) -> Sequence[float]:
        return [max(1.0, sum(share[task] for task in tasks))] * len(tasks)

    return slowdown


def beside_others(
    graph: KernelGraph, *, wait_s: float = WAIT_S, contention: Contention = shared_out
) -> KernelGraph:
    """The graph with what kernels take beside those of other streams, whose times are those of kernels alone.

    Args:
        graph: Kernels on their streams.
        wait_s: Seconds from the end of a kernel to the start of one of another stream that needs it.
        contention: What kernels that work at once take. Their starts, which need no SMs, take the same.
    """
    edges = graph.dependencies
    between = graph.on_device[edges.sources] & graph.on_device[edges.targets]
    between &= graph.resource_ids[edges.sources] != graph.resource_ids[edges.targets]
    lags = np.where(between, np.maximum(edges.lags_s, positive(wait_s, "wait")), edges.lags_s)
    waiting = replace(graph, dependencies=edges.lagging(lags))
    return waiting.assuming(
        f"Kernels of {graph.is_stream.sum():,} streams share SMs: together they work no faster than SMs that "
        f"are full; {START_S * 1e6:g} us to start need none, a wait for another stream takes "
        f"{wait_s * 1e6:g} us.",
        durations_s=_replayed(waiting, contention(waiting)),
    )


def _replayed(graph: KernelGraph, slowdown: Slowdown) -> FloatArray:
    """``(n,)`` seconds from start to end of each task, in a replay from event to event."""
    edges, n = graph.dependencies, len(graph)
    first, rows = grouped(n, edges.sources, np.arange(len(edges)))
    targets, lags, from_start = edges.targets.tolist(), edges.lags_s.tolist(), edges.from_start.tolist()
    waiting = np.bincount(edges.targets, minlength=n).tolist()
    starts = graph.ready_s.tolist()
    ends = [0.0] * n
    machine = Machine(graph, slowdown)

    def reach(task: int, moment: float, *, is_start: bool) -> None:
        for row in rows[first[task] : first[task + 1]]:
            if from_start[row] == is_start:
                target = targets[row]
                starts[target] = max(starts[target], moment + lags[row])
                waiting[target] -= 1
                if not waiting[target]:
                    begin(target)

    def begin(task: int) -> None:
        machine.start(task, starts[task])
        reach(task, starts[task], is_start=True)

    for task in [task for task in range(n) if not waiting[task]]:
        begin(task)
    while (ended := machine.next_end()) is not None:
        ends[ended] = machine.now_s
        reach(ended, machine.now_s, is_start=False)
    durations: FloatArray = np.maximum(np.array(ends) - np.array(starts), 0.0)
    return durations


class Machine:
    """Tasks that run, those that share SMs slower beside each other.

    Attributes:
        now_s: The time; that of the last end.
    """

    def __init__(self, graph: KernelGraph, slowdown: Slowdown) -> None:
        self.now_s = 0.0
        start = np.where(
            graph.of_kind(TaskKind.KERNEL), np.minimum(START_S, graph.durations_s), graph.durations_s
        )
        self._start_s: list[float] = start.tolist()
        self._work_s: list[float] = (graph.durations_s - start).tolist()
        self._slowdown = slowdown
        self._started: list[tuple[float, int]] = []  # when the start of a task is over
        self._working: list[int] = []
        self._left_s: list[float] = []
        self._factors: Sequence[float] = []

    def start(self, task: int, at_s: float) -> None:
        """Start a task at a time from now on."""
        heapq.heappush(self._started, (at_s + self._start_s[task], task))

    def next_end(self) -> int | None:
        """Go on to the next end of a task; None where none runs."""
        while self._working or self._started:
            ends = [left * factor for left, factor in zip(self._left_s, self._factors, strict=True)]
            soonest = self.now_s + min(ends, default=np.inf)
            if self._started and self._started[0][0] <= soonest:
                moment, task = heapq.heappop(self._started)
                self._pass(moment)
                if self._work_s[task] <= _DONE_S:
                    return task
                self._working.append(task)
                self._left_s.append(self._work_s[task])
            else:
                place = ends.index(min(ends))
                self._pass(soonest)
                task = self._working.pop(place)
                self._left_s.pop(place)
                self._factors = self._slowdown(self._working)
                return task
            self._factors = self._slowdown(self._working)
        return None

    def _pass(self, moment: float) -> None:
        passed = moment - self.now_s
        self._left_s = [
            left - passed / factor for left, factor in zip(self._left_s, self._factors, strict=True)
        ]
        self.now_s = moment
