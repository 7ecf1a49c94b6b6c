"""Kernels that take another time: faster or slower, measured elsewhere, or on other SMs."""

from collections.abc import Mapping

import numpy as np

from costmodel.errors import CostModelError
from costmodel.planner.graphs import KernelGraph, TaskKind
from costmodel.planner.whatif._base import kernels_named


def scale(graph: KernelGraph, pattern: str, factor: float) -> KernelGraph:
    """Kernels, copies and memsets whose name matches take ``factor`` times as long.

    Raises:
        CostModelError: No name matches, or the factor is negative or not finite.
    """
    found = kernels_named(graph, pattern)
    durations = np.where(found, graph.durations_s * _positive(factor, "factor"), graph.durations_s)
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
        durations[found] = _positive(latency, "latency")
        sentences.append(f"{found.sum():,} kernels that match {pattern} take {latency * 1e6:g} us.")
    return graph.assuming(*sentences, durations_s=durations)


def on_sms(
    graph: KernelGraph,
    sms: int,
    *,
    recorded: int | None = None,
    exponent: float = 1.0,
    latencies_s: Mapping[str, Mapping[int, float]] | None = None,
) -> KernelGraph:
    """Each kernel on so many SMs.

    Args:
        graph: The graph.
        sms: SMs that all kernels have.
        recorded: SMs that kernels were recorded on, where the graph does not say.
        exponent: A kernel takes ``(recorded / sms) ** exponent`` times as long: 1 for one that uses all SMs
            well, 0 for one that does not notice.
        latencies_s: What kernels take instead, by a pattern of their name and by SMs, as measured or
            predicted.

    Raises:
        CostModelError: It is not known on how many SMs a kernel was recorded, or an argument is wrong.
    """
    if sms < 1:
        raise CostModelError(f"SMs must be at least 1, but got {sms}.")
    kernels = graph.of_kind(TaskKind.KERNEL)
    had = np.where(graph.sms > 0, graph.sms, recorded or 0)
    if (had[kernels] < 1).any():
        raise CostModelError(
            "It must be known on how many SMs kernels were recorded, but the graph does not say: "
            f"give it, as in sms:132={sms}."
        )
    times = np.where(kernels, (np.maximum(had, 1) / sms) ** exponent, 1.0)
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {sms} SMs take (recorded SMs / {sms}) ** {exponent:g} times as long; "
        "copies and the host take the same.",
        durations_s=graph.durations_s * times,
        sms=np.where(kernels, sms, graph.sms).astype(np.int32),
    )
    known = {name: curve[sms] for name, curve in (latencies_s or {}).items() if sms in curve}
    return replace_latencies(changed, known) if known else changed


def _positive(value: float, what: str) -> float:
    if not (np.isfinite(value) and value >= 0):
        raise CostModelError(f"A {what} must be a number that is not negative, but got {value}.")
    return value
