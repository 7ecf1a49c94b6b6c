"""When tasks of a graph start and end."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.planner.graphs._base import KernelGraph, TaskKind


@dataclass(frozen=True)
class Timeline:
    """A graph with the start of each task.

    Attributes:
        graph: The graph.
        starts_s: ``(n,)`` starts, in seconds.
        held_by: ``(n,)`` dependency that each task waited for last, as a row of ``graph.dependencies``; -1 if
            it waited for none.
    """

    graph: KernelGraph
    starts_s: FloatArray
    held_by: Positions

    @cached_property
    def ends_s(self) -> FloatArray:
        """``(n,)`` ends, in seconds."""
        ends: FloatArray = self.starts_s + self.graph.durations_s
        return ends

    @cached_property
    def makespan_s(self) -> float:
        """Seconds from the first start to the last end; 0 if there is no task."""
        return float(self.ends_s.max() - self.starts_s.min()) if len(self.graph) else 0.0

    @cached_property
    def device_busy_s(self) -> float:
        """Seconds in which at least one kernel, copy or memset runs."""
        return busy_s(self.starts_s[self.graph.on_device], self.ends_s[self.graph.on_device])

    @cached_property
    def launches(self) -> int:
        """Number of tasks that launch something."""
        return int(self.graph.of_kind(TaskKind.LAUNCH).sum())


def busy_s(starts_s: FloatArray, ends_s: FloatArray) -> float:
    """Seconds that intervals cover together.

    Example:
        >>> busy_s(np.array([0.0, 1.0, 5.0]), np.array([2.0, 3.0, 6.0]))
        4.0
    """
    if not len(starts_s):
        return 0.0
    order = np.argsort(starts_s, kind="stable")
    starts, ends = starts_s[order], np.maximum.accumulate(ends_s[order])
    fresh: NDArray[np.bool_] = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([ends[:-1][fresh[1:]], ends[-1:]])
    return float((last - starts[fresh]).sum())
