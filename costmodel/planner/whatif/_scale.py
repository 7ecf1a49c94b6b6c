"""Kernels that take another time: faster or slower, measured elsewhere, or on other SMs."""

from collections.abc import Mapping

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs._base import KernelGraph, TaskKind
from costmodel.planner.whatif._base import kernels_named, positive
from costmodel.planner.whatif._bounds import START_S, pace_on, with_memory, with_work


def scale(graph: KernelGraph, pattern: str, factor: float) -> KernelGraph:
    """Multiply the durations of kernels, copies and memsets with a matching name by ``factor``.

    Raises:
        CostModelError: If no name matches, or the factor is negative or not finite.
    """
    found = kernels_named(graph, pattern)
    durations = np.where(found, graph.durations_s * positive(factor, "factor"), graph.durations_s)
    return graph.assuming(
        f"{found.sum():,} kernels that match {pattern} take {factor:g} times as long.", durations_s=durations
    )


def replace_latencies(graph: KernelGraph, latencies_s: Mapping[str, float]) -> KernelGraph:
    """Set the latencies of kernels, copies and memsets by name pattern; of several matches the last counts.

    Raises:
        CostModelError: If no name matches a pattern, or a latency is negative or not finite.
    """
    durations, sentences = graph.durations_s.copy(), []
    for pattern, latency in latencies_s.items():
        found = kernels_named(graph, pattern)
        durations[found] = positive(latency, "latency")
        sentences.append(f"{found.sum():,} kernels that match {pattern} take {latency * 1e6:g} us.")
    return graph.assuming(*sentences, durations_s=durations)


def on_sms(
    graph: KernelGraph,
    sms: int,
    *,
    recorded: int | None = None,
    latencies_s: Mapping[str, Mapping[int, float]] | None = None,
) -> KernelGraph:
    """Estimate each kernel on another number of SMs.

    The SM with the most blocks sets the pace: it runs them in rounds of as many as it holds at once, and a
    few warps take as long as the number that keeps it busy. In addition, all SMs share the memory, which
    takes a small part of a matrix product's time and most of that of others. If the blocks are unknown, work
    scales with 1 / SMs.

    Args:
        graph: The graph.
        sms: Number of SMs of all kernels.
        recorded: Number of SMs that the kernels were recorded on. A trace gives that of its GPU, whether or
            not only a part of them was used. Default: the number in the graph.
        latencies_s: Measured or predicted latencies in seconds to use instead, by name pattern and number of
            SMs.

    Raises:
        CostModelError: If the number of SMs that a kernel was recorded on is unknown, or an argument is
            invalid.
    """
    if sms < 1:
        raise CostModelError(f"SMs must be at least 1, but got {sms}.")
    kernels = graph.of_kind(TaskKind.KERNEL)
    had = np.where(kernels, recorded or graph.sms, 1)
    if (had < 1).any():
        raise CostModelError(
            "The graph must contain the number of SMs that kernels were recorded on, but does not. Give "
            f"it, as in sms:132={sms}."
        )
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {sms} SMs: work goes with the rounds of blocks of the fullest SM, and "
        f"with what does not depend on SMs, little of products and most of others, beside "
        f"{START_S * 1e6:g} us to start; copies and the host take the same.",
        durations_s=with_work(graph, with_memory(graph, pace_on(graph, had, sms))),
        sms=np.where(kernels, sms, graph.sms).astype(np.int32),
    )
    known = {name: curve[sms] for name, curve in (latencies_s or {}).items() if sms in curve}
    return replace_latencies(changed, known) if known else changed
