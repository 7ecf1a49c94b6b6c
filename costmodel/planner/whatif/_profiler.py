"""The time that the profiler itself took, taken out of a trace."""

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs import KernelGraph
from costmodel.planner.replay import replay

_HALVINGS = 24


def without_profiler(graph: KernelGraph, measured_s: float) -> KernelGraph:
    """The graph with a host as fast as it is without the profiler, which slows each of its calls down.

    All that the host does, and the time between its calls, takes the same part of what was recorded: the one
    with which a replay takes as long as was measured. Kernels and copies stay as they are.

    Args:
        graph: Of a trace.
        measured_s: What the same takes without the profiler, by the clock of the host.

    Raises:
        CostModelError: The time is not positive and finite.
    """
    if not (np.isfinite(measured_s) and measured_s > 0):
        raise CostModelError(f"A measured time must be positive, but got {measured_s} s.")
    low, high = 0.0, 1.0
    if replay(graph).makespan_s > measured_s:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            slower = replay(_with_host(graph, middle)).makespan_s > measured_s
            low, high = (low, middle) if slower else (middle, high)
    changed = _with_host(graph, high)
    return changed.assuming(
        f"Without the profiler the host takes {high:.2f} of what was recorded, so that all takes "
        f"{replay(changed).makespan_s * 1e6:,.1f} us, where {measured_s * 1e6:,.1f} us were measured."
    )


def _with_host(graph: KernelGraph, factor: float) -> KernelGraph:
    edges = graph.dependencies
    of_host = ~graph.on_device
    lags = np.where(of_host[edges.targets], edges.lags_s * factor, edges.lags_s)
    return graph.assuming(
        durations_s=np.where(of_host, graph.durations_s * factor, graph.durations_s),
        ready_s=np.where(of_host, graph.ready_s * factor, graph.ready_s),
        dependencies=edges.lagging(lags),
    )
