"""Latencies of kernels that run at once on one device: they share its SMs, its L2 cache and its memory.

Constants of ``beside_others`` are those of an H200 and CUDA graphs at batch 1: experiments/streams.

Notations of ``SharedMemory``: k kernels run beside each other, each over and over. What one reads and writes,
each byte once, are its bytes. Until a kernel uses a byte again, the bytes pass through the cache that all use
in the time of one of its runs; the more these are, the more of its bytes are missed and come from the memory.
The load that others put on the memory is the part of its bandwidth that they take alone.

A kernel is as slow as its fair share of the bandwidth makes it (who asks for less than an equal share gets
it), or as its waits do, which grow with the load: all wait somewhat, short ones and those that stream more.

References:
    D. Bertsekas, R. Gallager, Data Networks, 2nd edition, 1992, section 6.5.2: max-min fairness.
    R. L. Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970: what
    passes through a cache between two uses of a byte tells whether it is still there.
"""

import heapq
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind, group_values
from costmodel.planner.whatif._kernel_time import START_S, count_rounds
from costmodel.planner.whatif._transform import DIGITS_S, check_positive
from costmodel.records._platform import Device
from costmodel.records._workload import Workload


class RunningKernel(NamedTuple):
    """What a kernel is at.

    Attributes:
        task: Its position in the graph.
        share: What of the room on all SMs its blocks want: none while it starts, all of it while there are
            more blocks than fit at once, less in its last round.
    """

    task: int
    share: float


# Of kernels that run at once, in the order of their starts, how many times as long as alone each takes.
Slowdown = Callable[[Sequence[RunningKernel]], Sequence[float]]
# Tells that for the kernels of a graph.
Contention = Callable[[KernelGraph], Slowdown]
# Seconds from the end of a kernel of a CUDA graph to the start of one of another stream that needs it, where
# two streams fork and join; .70 us where four do, 1.41 us where eight do.
WAIT_S = 0.43e-6
# How many times as long as alone a kernel takes beside others for which there is room, too. Fitted to what
# networks take in float16; kernels that are repeated beside each other hardly show it.
BESIDE = 1.25
# Of a kernel's work, what counts as none.
_NOTHING_S = 1e-15
# Rounds of blocks up to a whole number of them, beside rounding.
_ROUNDING = 1e-9


def first_come(_: KernelGraph, *, beside: float = BESIDE) -> Slowdown:
    """Let blocks find room in the order in which their kernels started.

    Args:
        beside: How many times as long as alone each kernel takes beside others, whether or not there is room.
    """

    def slowdown(works: Sequence[RunningKernel]) -> Sequence[float]:
        slower, room, found = beside if len(works) > 1 else 1.0, 1.0, []
        for work in works:
            got = min(work.share, room)
            room -= got
            found.append(slower * (1.0 if got == work.share else work.share / got if got > 0 else inf))
        return found

    return slowdown


def beside_others(
    graph: KernelGraph, *, wait_s: float = WAIT_S, contention: Contention = first_come
) -> KernelGraph:
    """Return the graph with the latencies of kernels next to those of other streams.

    The durations in ``graph`` are those of kernels that run alone.

    Args:
        graph: Kernels on their streams.
        wait_s: Seconds from the end of a kernel to the start of a dependent kernel on another stream.
        contention: Computes, for a graph, the durations of kernels that run at the same time.
    """
    edges = graph.dependencies
    between = graph.on_device[edges.sources] & graph.on_device[edges.targets]
    between &= graph.resource_ids[edges.sources] != graph.resource_ids[edges.targets]
    lags = np.where(between, np.maximum(edges.lags_s, check_positive(wait_s, "wait")), edges.lags_s)
    waiting = replace(graph, dependencies=edges.lagging(lags))
    how = (
        f"blocks find room in the order of their kernels, {START_S * 1e6:g} us to start need none, and each "
        f"kernel takes {BESIDE:g} times as long beside others"
        if contention is first_come
        else "what that costs them was told"
    )
    return waiting.assuming(
        f"Kernels of {graph.is_stream.sum():,} streams share SMs: {how}; a wait for another stream takes "
        f"{wait_s * 1e6:g} us.",
        durations_s=_replayed(waiting, Sharing.of(waiting, contention)),
    )


def _replayed(graph: KernelGraph, sharing: "Sharing") -> FloatArray:
    """``(n,)`` seconds from start to end of each task, in a replay from event to event."""
    edges, n = graph.dependencies, len(graph)
    first, rows = group_values(n, edges.sources, np.arange(len(edges)))
    targets, lags, from_start = edges.targets.tolist(), edges.lags_s.tolist(), edges.from_start.tolist()
    waiting = np.bincount(edges.targets, minlength=n).tolist()
    starts = graph.ready_s.tolist()
    ends = [0.0] * n
    machine = Machine(sharing)

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


@dataclass(frozen=True)
class Sharing:
    """What tasks of a graph do to each other.

    Attributes:
        parts: Of each task, seconds and share of one part after the other: its start, full rounds, the last.
        is_kernel: Whether a task is one.
        slowdown: Of kernels that run at once.
    """

    parts: list[list[tuple[float, float]]]
    is_kernel: list[bool]
    slowdown: Slowdown

    @classmethod
    def of(cls, graph: KernelGraph, contention: Contention) -> "Sharing":
        """Make that of a graph."""
        return cls(_parts(graph), graph.of_kind(TaskKind.KERNEL).tolist(), contention(graph))


class Machine:
    """Tasks that run, kernels as fast as others beside them let them.

    What runs is kept in the order of starts, at the same time in that of the graph: who finds room first must
    not depend on which of several ends of that moment happens to be looked at first.

    Attributes:
        now_s: The time; that of the last end.
    """

    def __init__(self, sharing: Sharing) -> None:
        self.now_s = 0.0
        self._sharing = sharing
        self._coming: list[tuple[float, int]] = []  # when a task starts
        self._started: list[tuple[float, int]] = []  # since when which task runs, in this order
        self._works: list[RunningKernel] = []
        self._at: list[int] = []  # which part of it a task is at
        self._left_s: list[float] = []
        self._factors: list[float] = []

    def start(self, task: int, at_s: float) -> None:
        """Start a task at a time from now on; at the same time the one that comes first in the graph."""
        heapq.heappush(self._coming, (round(at_s, DIGITS_S), task))

    def next_end(self) -> int | None:
        """Go on to the next end of a task; None where none runs."""
        while self._works or self._coming:
            ends = [
                left * factor if left > _NOTHING_S else 0.0
                for left, factor in zip(self._left_s, self._factors, strict=True)
            ]
            soonest = min(ends, default=inf)
            if self._coming and self._coming[0][0] <= self.now_s + soonest:
                moment, task = heapq.heappop(self._coming)
                self._pass(moment)
                place = bisect(self._started, (moment, task))
                self._started.insert(place, (moment, task))
                self._works.insert(place, RunningKernel(task, 0.0))
                self._at.insert(place, -1)
                self._left_s.insert(place, 0.0)
            else:
                place = ends.index(soonest)
                self._pass(self.now_s + soonest)
            ended = self._go_on(place)
            self._share()
            if ended is not None:
                return ended
        return None

    def _go_on(self, place: int) -> int | None:
        """Begin the next part of what runs there; its task if there is none."""
        task = self._works[place].task
        self._at[place] += 1
        parts = self._sharing.parts[task]
        if self._at[place] < len(parts):
            self._left_s[place], share = parts[self._at[place]]
            self._works[place] = RunningKernel(task, share)
            return None
        for each in (self._started, self._works, self._at, self._left_s):
            each.pop(place)
        return task

    def _share(self) -> None:
        """Ask how fast all that runs is now."""
        is_kernel = self._sharing.is_kernel
        factors = iter(self._sharing.slowdown([work for work in self._works if is_kernel[work.task]]))
        self._factors = [next(factors) if is_kernel[work.task] else 1.0 for work in self._works]

    def _pass(self, moment: float) -> None:
        passed = moment - self.now_s
        self._left_s = [
            left - passed / factor for left, factor in zip(self._left_s, self._factors, strict=True)
        ]
        self.now_s = moment


def _parts(graph: KernelGraph) -> list[list[tuple[float, float]]]:
    start = np.minimum(START_S, graph.durations_s)
    start_s = np.where(graph.of_kind(TaskKind.KERNEL), start, graph.durations_s)
    work_s, rounds = (graph.durations_s - start_s).tolist(), count_rounds(graph).tolist()
    found = []
    for start_of, work, wanted in zip(start_s.tolist(), work_s, rounds, strict=True):
        before = max(ceil(wanted - _ROUNDING) - 1, 0)
        each = work / (before + 1)
        parts = [(start_of, 0.0), (each * before, 1.0), (each, wanted - before)]
        found.append([part for part in parts if part[0] > _NOTHING_S])
    return found


# Of the cache. With all of it, errors are the same within .1 %.
_CACHE = 0.5
_SHORT_S = 5e-6


class Waits(NamedTuple):
    """How much longer kernels take beside a full load of the memory, over what they take alone.

    The defaults have the least mean error over the pairs of experiments/neighbours.

    Attributes:
        all: Of every kernel.
        short: More of one that takes no time; half of it where it takes 5 us.
        streaming: More of one that takes the memory's whole bandwidth.
    """

    all: float = 0.43
    short: float = 0.70
    streaming: float = 0.82


class SharedMemory:
    """Slowdown of kernels that run at the same time on disjoint SMs.

    The model is fitted to pairs of kernels on an H200; experiments/neighbours gives its error for kernels
    that it was not fitted to. For other devices, bandwidth and cache size come from the data sheet.

    Args:
        device: The device. A device whose L2 cache is unknown is treated as having none.
        waits: The fitted parameters.

    Raises:
        CostModelError: If the device's bandwidth is unknown.
    """

    def __init__(self, device: Device, waits: Waits = Waits()) -> None:  # noqa: B008 (it cannot be changed)
        if not device.bandwidth_gb_s > 0:
            raise CostModelError(
                f"A device must have a known memory bandwidth, but {device.name} has "
                f"{device.bandwidth_gb_s:g} GB/s: describe it, as in bandwidth:3352."
            )
        self.device = device
        self._bytes_s, self._cache_bytes = device.bandwidth_gb_s * 1e9, _CACHE * device.l2_bytes
        self._waits = waits

    def slowdowns(self, latencies_s: Sequence[float], sizes_bytes: Sequence[int]) -> list[float]:
        """Return the latency of each kernel next to the others, divided by its latency alone on the same SMs.

        Args:
            latencies_s: ``(k,)`` latencies alone on these SMs in seconds, positive.
            sizes_bytes: ``(k,)`` bytes of each kernel; 0 if unknown, which counts as moving none.

        Returns:
            ``(k,)`` factors of at least 1.
        """
        kernels = list(zip(latencies_s, sizes_bytes, strict=True))
        loads = [self._part_of_bandwidth(*kernel, kernel[1]) for kernel in kernels]
        found = []
        for i, (seconds, size) in enumerate(kernels):
            others = [*kernels[:i], *kernels[i + 1 :]]
            until_used_again = size + sum(other * min(1.0, seconds / each) for each, other in others)
            asked = self._part_of_bandwidth(seconds, size, until_used_again)
            asked_by_others = [*loads[:i], *loads[i + 1 :]]
            got, *_ = fair_shares([asked, *asked_by_others], 1.0)
            load = min(1.0, sum(asked_by_others))
            waits = self._waits.all + self._waits.short * _SHORT_S / (_SHORT_S + seconds)
            waits += self._waits.streaming * asked
            found.append(max(asked / got if got else 1.0, 1.0 + load * waits))
        return found

    def __call__(self, graph: KernelGraph) -> Slowdown:
        """The same for kernels of a graph that run at once on disjoint SMs.

        A kernel's bytes are those of its workload; one whose workload is not known counts as one that moves
        none. What is no kernel, only starts, or takes no time, neither slows down others nor is slowed down.
        """
        sizes = [_bytes_of(name) for name in graph.workloads]
        of_task = [sizes[i] for i in graph.workload_ids.tolist()]
        alone_s = graph.durations_s.tolist()
        counts = (graph.of_kind(TaskKind.KERNEL) & (graph.durations_s > 0)).tolist()

        def beside(works: Sequence[RunningKernel]) -> list[float]:
            kernels = [work.task for work in works if work.share and counts[work.task]]
            found = self.slowdowns([alone_s[task] for task in kernels], [of_task[task] for task in kernels])
            by_task = dict(zip(kernels, found, strict=True))
            return [by_task.get(work.task, 1.0) for work in works]

        return beside

    def _part_of_bandwidth(self, seconds: float, size: float, until_used_again: float) -> float:
        """What a kernel takes of the memory's bandwidth, at most all of it."""
        missed = until_used_again / (until_used_again + self._cache_bytes) if size else 0.0
        return min(1.0, size * missed / seconds / self._bytes_s)


def fair_shares(asked: Sequence[float], most: float) -> list[float]:
    """Share out something that all may ask too much of: each gets all that it asks for, or an equal share.

    Example:
        >>> fair_shares([1.0, 5.0, 9.0], 9.0)
        [1.0, 4.0, 4.0]
    """
    shares, left = [0.0] * len(asked), most
    by_size = sorted(range(len(asked)), key=lambda i: asked[i])
    for place, i in enumerate(by_size):
        shares[i] = min(asked[i], left / (len(asked) - place))
        left -= shares[i]
    return shares


def _bytes_of(workload: str) -> int:
    return Workload.parse(workload).min_bytes if workload else 0
