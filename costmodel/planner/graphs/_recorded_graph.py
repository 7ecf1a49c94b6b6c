"""A graph that was recorded: with its times, lags that explain them, and what was wrong with its file."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.planner.graphs._kernel_graph import Dependencies, DependencyKind, KernelGraph

# What can be wrong, and what is done: nothing of it is believed.
RULES = {
    "truncated": "the file ends, or cannot be read, before its end: what stands before is used",
    "unreadable_event": "an event that is no JSON: left out, and what follows is read",
    "malformed": "an event without a name, track or fields that must be there: left out",
    "unreadable_time": "a start or duration that is missing or not a finite number: left out",
    "negative_duration": "left out",
    "clock_jump": "nothing runs for ten times as long as all else takes, and over a minute: cut out",
    "corrupt_duration": "many times as long as others like it, and contradicted: takes what they take",
    "outlasts_successor": "it ends after the next task of its stream starts: ends there",
    "runs_inside_another": "it lies within another task of its stream, which ends where it starts",
    "crosses_on_thread": "a call ends after the call that made it: ends with it",
    "missing_launch": "a kernel or copy whose correlation no call has: waits for its stream alone",
    "graph_without_launch": "the same of kernels of a CUDA graph",
    "missing_kernel": "a launch whose correlation no kernel or copy has: kept as host work",
    "duplicate_correlation": "calls share one, or kernels outside of CUDA graphs do: the first has it",
    "dangling_flow": "an arrow between a call and a kernel of which one end is not there: left out",
    "starts_before_launch": "it waits for its launch all the same, and so starts later than recorded",
    "waits_in_circles": "waits of streams, threads or events that form a circle: left out",
    "waited_too_short": "a wait that ended before what it waited for: left out",
}


@dataclass(frozen=True)
class Inspection:
    """Contents of a trace, and what was wrong with it.

    Attributes:
        events: Number of events in the file.
        tasks: Number of tasks made from them.
        counts: Number of violations by rule of ``RULES``, for the rules that were violated.
        unknown: What is not wrong, but not known either, in sentences.
    """

    events: int
    tasks: int
    counts: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong."""
        return not self.counts

    def sentences(self) -> list[str]:
        """Return one sentence per finding, with its count and rule, followed by what is unknown."""
        found = [
            f"{count:,} x {name.replace('_', ' ')}: {RULES[name]}." for name, count in self.counts.items()
        ]
        return [*found, *self.unknown]


@dataclass
class FaultCounts:
    """Counts while a trace is read."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)

    def add(self, name: str, count: int = 1) -> None:
        """Count what one of ``RULES`` names."""
        if name not in RULES:
            raise ValueError(f"findings must be among {sorted(RULES)}, but got {name!r}")
        if count:
            self.counts[name] += int(count)

    def inspection(self, events: int, tasks: int) -> Inspection:
        """Return what was found, in the order of ``RULES``."""
        counts = {name: self.counts[name] for name in RULES if name in self.counts}
        return Inspection(events, tasks, counts, tuple(self.unknown))


# A launch takes effect so soon at best: this part of all launches is at least as fast, unless streams are so
# far behind the host that none tells it; an idle H100 starts a kernel 5 us after its launch began.
_FAST_LAUNCHES, _SLOWEST_LAUNCH_S = 0.05, 20e-6


@dataclass(frozen=True)
class RecordedGraph:
    """A graph and the recording that it was made from.

    Attributes:
        graph: The graph.
        starts_s: ``(n,)`` recorded starts in seconds, relative to the first; NaN if not recorded.
        inspection: What was wrong with the file.
        rank: Of the process that was recorded, among those that work together; None if nobody knows.
        world_size: How many work together; 0 if nobody knows.
        groups: Processes that do collectives together, by task: of each collective that says it.
    """

    graph: KernelGraph
    starts_s: FloatArray
    inspection: Inspection
    rank: int | None = None
    world_size: int = 0
    groups: dict[int, str] = field(default_factory=dict)

    @classmethod
    def unrecorded(cls, graph: KernelGraph, inspection: Inspection | None = None) -> "RecordedGraph":
        """Make a recording without times from a graph that was written, not recorded.

        Args:
            graph: The graph.
            inspection: What is wrong with it. Default: nothing.
        """
        return cls(graph, np.full(len(graph), np.nan), inspection or Inspection(len(graph), len(graph)))

    @property
    def makespan_s(self) -> float:
        """Seconds from the first recorded start to the last end; NaN if no start was recorded."""
        ends_s = self.starts_s + self.graph.durations_s
        return float(ends_s.max() - self.starts_s.min()) if len(ends_s) else 0.0


@dataclass(frozen=True)
class RecordedTimes:
    """When tasks ran; all arrays are ``(n,)``.

    Attributes:
        starts_s: Recorded starts; of a wait, when it was over.
        ends_s: Recorded ends.
        called_s: When the thread came to a task: earlier than its start for a wait.
        on_device: Whether a task runs on a stream.
    """

    starts_s: FloatArray
    ends_s: FloatArray
    called_s: FloatArray
    on_device: NDArray[np.bool_]


def timed_dependencies(
    times: RecordedTimes, sources: Positions, targets: Positions, kinds: NDArray[np.intp]
) -> tuple[Dependencies, FloatArray]:
    """Give dependencies lags that explain recorded starts, and find starts of tasks that wait for nothing.

    Of all that a task waited for, what held it back longest gets all the time that passed until the task
    started; each of the others gets what such a dependency takes at least: the launch latency of the fastest
    launches of the trace, the median gap between kernels of a stream that were not held back by their launch.
    A replay therefore starts each task exactly when it was recorded to start, and a change of any task has
    its effect.

    Args:
        times: When tasks ran.
        sources: ``(m,)`` what is waited for.
        targets: ``(m,)`` what waits.
        kinds: ``(m,)`` a ``DependencyKind`` each.
    """
    n = len(times.starts_s)
    is_launch, is_order = kinds == DependencyKind.LAUNCH, kinds == DependencyKind.ORDER
    since = np.where(is_launch, times.starts_s[sources], times.ends_s[sources])
    until = np.where(
        is_order | (kinds == DependencyKind.DATA), times.called_s[targets], times.starts_s[targets]
    )
    slack = np.maximum(until - since, 0.0)
    least = np.zeros(len(slack))
    if is_launch.any():
        soonest = np.full(n, np.inf)  # of a CUDA graph only the first kernel tells how soon
        np.minimum.at(soonest, sources[is_launch], slack[is_launch])
        fast_s = np.quantile(soonest[np.isfinite(soonest)], _FAST_LAUNCHES)
        least[is_launch] = min(fast_s, _SLOWEST_LAUNCH_S)
    in_stream = is_order & times.on_device[targets]
    free = in_stream & _binding(slack - least, targets, kinds, n)
    if free.any():
        least[in_stream] = np.median(slack[free])
    least = np.minimum(least, slack)
    lags = np.where(_binding(slack - least, targets, kinds, n), slack, least)
    lags[kinds == DependencyKind.SYNC] = 0.0  # such a task starts when what it waits for is done
    ready = np.where(np.bincount(targets, minlength=n) > 0, 0.0, times.starts_s)
    return Dependencies.of(sources, targets, kinds, lags, is_launch), ready


def _binding(excess: FloatArray, targets: Positions, kinds: NDArray[np.intp], n: int) -> NDArray[np.bool_]:
    """``(m,)`` whether a dependency held its task back longest; host waits have no part in it."""
    counted = kinds != DependencyKind.SYNC
    smallest = np.full(n, np.inf)
    np.minimum.at(smallest, targets[counted], excess[counted])
    binding: NDArray[np.bool_] = counted & (excess <= smallest[targets])
    return binding
