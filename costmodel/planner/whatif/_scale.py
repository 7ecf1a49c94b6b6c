"""Kernels that take another time: faster or slower, measured elsewhere, or on other SMs."""

from collections.abc import Mapping

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs import KernelGraph, TaskKind
from costmodel.planner.whatif._base import kernels_named, positive
from costmodel.planner.whatif._bounds import START_S, pace_on, with_memory, with_work


def scale(graph: KernelGraph, pattern: str, factor: float) -> KernelGraph:
    """Kernels, copies and memsets whose name matches take ``factor`` times as long.

    Raises:
        CostModelError: No name matches, or the factor is negative or not finite.
    """
    found = kernels_named(graph, pattern)
    durations = np.where(found, graph.durations_s * positive(factor, "factor"), graph.durations_s)
    return graph.assuming(
        f"{found.sum():,} kernels that match {pattern} take {factor:g} times as long.", durations_s=durations
    )


def replace_latencies(graph: KernelGraph, latencies_s: Mapping[str, float]) -> KernelGraph:
    """Kernels, copies and memsets take what is given for a pattern of their name; of several the last counts.

    Raises:
        CostModelError: No name matches a pattern, or a latency is negative or not finite.
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
    """Each kernel on so many SMs.

    The SM with most blocks sets the pace: it does them in rounds of as many as it holds at once, and few
    warps take as long as those that keep it busy. Beside that stands the memory, which all SMs share: little
    of a matrix product's time, most of others'. Where blocks are not known, work goes with 1 / SMs.

    Args:
        graph: The graph.
        sms: SMs that all kernels have.
        recorded: SMs that kernels were recorded on; what the graph says if not given. A trace says how many
            its GPU has, whether or not a part of them was used.
        latencies_s: What kernels take instead, by a pattern of their name and by SMs, as measured or
            predicted.

    Raises:
        CostModelError: It is not known on how many SMs a kernel was recorded, or an argument is wrong.
    """
    if sms < 1:
        raise CostModelError(f"SMs must be at least 1, but got {sms}.")
    kernels = graph.of_kind(TaskKind.KERNEL)
    had = np.where(kernels, recorded or graph.sms, 1)
    if (had < 1).any():
        raise CostModelError(
            "It must be known on how many SMs kernels were recorded, but the graph does not say: "
            f"give it, as in sms:132={sms}."
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
