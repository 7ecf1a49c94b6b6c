"""The time that the profiler itself took, taken out of a trace."""

from collections.abc import Callable

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner._replay import replay
from costmodel.planner.graphs._kernel_graph import DependencyKind, KernelGraph
from costmodel.planner.whatif._transform import check_positive

_HALVINGS = 24
# Of loops of calls that launch nothing, or kernels that do nothing, on the host of an H100: 0.62 to 0.66
# (experiments/real_traces).
USUAL_HOST_SHARE = 0.65
# What a measured time may be off by.
_TOLERANCE = 0.01
# Kernels take no smaller part without the profiler: else one step was measured where several are replayed.
_SLOWED_KERNELS = 0.6
# No profiler slows a model down so many times, and a time in another unit is off by more.
_MOST_TIMES = 100


def without_profiler(
    graph: KernelGraph, measured_s: float, *, usual_host_share: float = USUAL_HOST_SHARE
) -> KernelGraph:
    """Remove the overhead of the profiler, which slows down host calls and what streams do.

    First, all host work, the time between host calls and the launch delays are scaled by the same factor, the
    one with which a replay takes the measured time. If the device sets the pace, the measured time does not
    determine the host time, and the usual factor is used. If even a host time of zero is not enough, as with
    a CUDA graph, the gaps between kernels, which the profiler also lengthens, are scaled; if that is not
    enough, kernels and copies are scaled.

    Args:
        graph: Graph of a trace.
        measured_s: Measured time without the profiler, in seconds, by the host's clock.
        usual_host_share: Factor of the recorded host time, unless the measured time contradicts it.

    Raises:
        CostModelError: If the time is not positive and finite, or is in another unit than seconds.
    """
    if not check_positive(measured_s, "measured time"):
        raise CostModelError("A measured time must be positive, but got 0 s.")
    recorded_s = replay(graph).makespan_s
    if not recorded_s / _MOST_TIMES <= measured_s <= recorded_s * _MOST_TIMES:
        raise CostModelError(
            f"A measured time must be in seconds and of the same work, but got {measured_s:.4g} s where "
            f"{recorded_s:.4g} s were recorded: give seconds, of what the graph has."
        )
    changed, parts, doubts = _with_host(graph, usual_host_share), list[str](), list[str]()
    if abs(replay(changed).makespan_s / measured_s - 1) <= _TOLERANCE:
        parts.append(f"the host takes {usual_host_share:.2f}")
    else:
        changed = graph
        for what, scaled in _STEPS.items():
            if replay(changed).makespan_s > measured_s:
                factor = _fitting(changed, scaled, measured_s)
                changed = scaled(changed, factor)
                parts.append(f"{what} {factor:.2f}")
                if scaled is _with_kernels and factor < _SLOWED_KERNELS:
                    doubts.append(
                        "No profiler slows kernels that much: measure all steps that the graph has."
                    )
    return changed.assuming(
        f"Without the profiler {', '.join(parts) or 'all'} of what was recorded, so that all takes "
        f"{replay(changed).makespan_s * 1e6:,.1f} us, where {measured_s * 1e6:,.1f} us were measured.",
        *doubts,
    )


def _fitting(graph: KernelGraph, scaled: Callable[[KernelGraph, float], KernelGraph], most_s: float) -> float:
    """The largest part up to 1 with which a replay takes no longer; 0 if there is none."""
    low, high = 0.0, 1.0
    if replay(scaled(graph, low)).makespan_s > most_s:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slower = replay(scaled(graph, middle)).makespan_s > most_s
        low, high = (low, middle) if slower else (middle, high)
    return low


def _with_host(graph: KernelGraph, factor: float) -> KernelGraph:
    edges = graph.dependencies
    of_host = ~graph.on_device
    lags = np.where(of_host[edges.targets], edges.lags_s * factor, edges.lags_s)
    called = np.minimum(graph.durations_s[edges.sources], lags) * (edges.kinds == DependencyKind.LAUNCH)
    return graph.assuming(
        durations_s=np.where(of_host, graph.durations_s * factor, graph.durations_s),
        ready_s=np.where(of_host, graph.ready_s * factor, graph.ready_s),
        dependencies=edges.lagging(lags - (1 - factor) * called),
    )


def _with_gaps(graph: KernelGraph, factor: float) -> KernelGraph:
    edges = graph.dependencies
    between = graph.on_device[edges.sources] & graph.on_device[edges.targets]
    return graph.assuming(dependencies=edges.lagging(edges.lags_s * np.where(between, factor, 1.0)))


def _with_kernels(graph: KernelGraph, factor: float) -> KernelGraph:
    return graph.assuming(durations_s=graph.durations_s * np.where(graph.on_device, factor, 1.0))


_STEPS = {"the host takes": _with_host, "gaps between kernels": _with_gaps, "kernels": _with_kernels}
