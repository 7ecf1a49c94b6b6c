"""Kernels of known workloads: others in their place, the same on other SMs, or their epilogues apart."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from costmodel.arrays import Positions
from costmodel.errors import CostModelError
from costmodel.planner._replay import replay
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._kernel_time import raise_to_floor
from costmodel.planner.whatif._scale import on_sms
from costmodel.planner.whatif._transform import Mask, kernels_named
from costmodel.records._operators import OPERATORS
from costmodel.records._workload import DTYPE_BYTES, Workload

if TYPE_CHECKING:
    from costmodel.planner._latencies import Latencies


@dataclass(frozen=True)
class WorkloadKernels:
    """Kernels of a graph that compute the same on as many SMs.

    Attributes:
        workload: What they compute.
        sms: SMs that they have.
        tasks: Their positions.
    """

    workload: Workload
    sms: int
    tasks: Positions

    @property
    def name(self) -> str:
        """Of the workload."""
        return self.workload.name


def find_latencies(graph: KernelGraph, latencies: "Latencies") -> "Latencies":
    """Return latencies on the device that the kernels of a graph run on.

    Raises:
        CostModelError: The graph's device is known, but no kernel is known of it.
    """
    found = latencies.of(graph.device)
    if found is None:
        assert graph.device is not None
        own, other = graph.device.name, latencies.device.name
        raise CostModelError(
            f"Kernels must be known on {own}, which the graph's kernels run on, but those that were opened "
            f"are of {other}. Name a dataset or model of {own}, or ask about {other} instead: "
            f"device:{own}={other},tuned."
        )
    return found


def group_by_workload(
    graph: KernelGraph, latencies: "Latencies", among: Mask | None = None
) -> list[WorkloadKernels]:
    """Group the kernels whose workloads are known by workload and SMs, in the order of the graph.

    Args:
        graph: The graph.
        latencies: They say how many SMs the device has, which a kernel has where the graph does not say.
        among: ``(n,)`` which tasks count; all unless given.
    """
    mask = graph.of_kind(TaskKind.KERNEL) & (graph.workload_ids > 0)
    tasks = np.flatnonzero(mask if among is None else mask & among)
    groups: dict[tuple[str, int], list[int]] = {}
    for task in tasks.tolist():
        groups.setdefault((graph.workload(task), int(graph.sms[task])), []).append(task)
    return [
        WorkloadKernels(Workload.parse(name), latencies.on_device(sms or None), np.array(of, dtype=np.intp))
        for (name, sms), of in groups.items()
    ]


def tuned(graph: KernelGraph, latencies: "Latencies", pattern: str = "") -> KernelGraph:
    """Replace kernels by the best known kernel of their workload on their SMs, if that is faster.

    Args:
        graph: A graph that contains the workloads of its kernels: from a Relax module, a trace with shapes,
            or your own.
        latencies: Recorded or predicted latencies.
        pattern: Only kernels whose name matches. Default: all.

    Raises:
        CostModelError: If no kernel has a workload, or no name matches.
    """
    durations, replaced = graph.durations_s.copy(), Counter[str]()
    latencies = find_latencies(graph, latencies)
    among = kernels_named(graph, pattern) if pattern else None
    for group in _some(group_by_workload(graph, latencies, among)):
        table = latencies.kernels(group.workload)
        best = table.best(group.sms) if table else None
        if table is None or best is None or table.origin == "estimated":
            replaced["unknown"] += len(group.tasks)
            continue
        slower = durations[group.tasks] > best.latency_s
        replaced[table.origin] += int(slower.sum())
        replaced["faster"] += int((~slower).sum())
        durations[group.tasks[slower]] = best.latency_s
    changed = graph.assuming(
        f"{replaced['recorded']:,} kernels became the best that was recorded of their workload on their SMs "
        f"of {latencies.device.name}, {replaced['predicted']:,} the best that a model predicts; "
        f"{replaced['faster']:,} are as fast already, of {replaced['unknown']:,} no kernel is known."
        f"{_device_untold(graph)}",
        durations_s=durations,
    )
    return raise_to_floor(graph, changed)


def _device_untold(graph: KernelGraph) -> str:
    return "" if graph.device else " Nothing says that the graph ran on this device."


def same_kernels_on_sms(
    graph: KernelGraph, sms: int, latencies: "Latencies", *, recorded: int | None = None
) -> KernelGraph:
    """Estimate the kernels of a graph, as chosen for their recorded SMs, on another number of SMs.

    A kernel is slowed down by the same factor as the best kernel for its recorded SMs. Kernels without a
    known workload are estimated with ``on_sms``. ``tuned`` chooses kernels again.

    Args:
        graph: The graph.
        sms: Number of SMs of all kernels.
        latencies: Recorded or predicted latencies.
        recorded: Number of SMs that the kernels had. Default: the number in the graph.

    Raises:
        CostModelError: If the number of SMs that a kernel had is unknown, or the device has fewer than
            ``sms``.
    """
    latencies = find_latencies(graph, latencies)
    latencies.on_device(sms)
    others = on_sms(graph, sms, recorded=recorded)
    durations, known = others.durations_s.copy(), 0
    had = graph.assuming(sms=np.full_like(graph.sms, recorded)) if recorded else graph
    for group in group_by_workload(had, latencies):
        table = latencies.kernels(group.workload)
        then, now = (table.best(at, chosen_for=group.sms) if table else None for at in (group.sms, sms))
        if then and now:
            durations[group.tasks] = graph.durations_s[group.tasks] * (now.latency_s / then.latency_s)
            known += len(group.tasks)
    if not known:
        return others
    kernels = int(graph.of_kind(TaskKind.KERNEL).sum())
    changed = graph.assuming(
        f"{known:,} kernels are kept as they were chosen, and take on {sms} SMs what the best kernel for the "
        f"SMs that they had takes there; {kernels - known:,} take what their blocks or bytes say.",
        durations_s=durations,
        sms=others.sms,
    )
    changed = raise_to_floor(graph, changed)
    again = replay(tuned(changed, latencies)).makespan_s
    return changed.assuming(
        f"With kernels chosen for {sms} SMs all would take {1e6 * again:,.1f} us, not "
        f"{1e6 * replay(changed).makespan_s:,.1f} us: what-if tuned."
    )


def unfused(graph: KernelGraph, latencies: "Latencies", pattern: str = "") -> KernelGraph:
    """Split kernels with an epilogue into one without and one for the epilogue, both the best on their SMs.

    The epilogue takes the time of moving its data. Each pair remains one task of the graph.

    Args:
        graph: A graph that contains the workloads of its kernels.
        latencies: Recorded or predicted latencies.
        pattern: Only kernels whose name matches. Default: all.

    Raises:
        CostModelError: If no kernel has a workload, or no name matches.
    """
    from costmodel.planner._latencies import RooflineLatencies

    durations, count, loses = graph.durations_s.copy(), 0, dict[str, float]()
    latencies = find_latencies(graph, latencies)
    roof = RooflineLatencies(latencies.device)
    among = kernels_named(graph, pattern) if pattern else None
    for group in _some(group_by_workload(graph, latencies, among)):
        apart = _without_epilogue(group.workload)
        table = latencies.kernels(apart) if apart else None
        best = table.best(group.sms) if table else None
        if best is None:
            continue
        seconds = best.latency_s + roof.moving_s(group.sms, _epilogue_bytes(group.workload))
        gained = float(durations[group.tasks].mean()) - seconds
        if gained > 0:
            loses[group.workload.name] = gained
        durations[group.tasks] = seconds
        count += len(group.tasks)
    lost = ", ".join(f"{name} ({1e6 * gained:.1f} us)" for name, gained in loses.items())
    changed = graph.assuming(
        f"{count:,} kernels became one without epilogue, and one for it, which takes what moving its data "
        f"takes. Fusing loses for {lost or 'none of them'}.",
        durations_s=durations,
    )
    return raise_to_floor(graph, changed)


def _some(groups: Sequence[WorkloadKernels]) -> Iterator[WorkloadKernels]:
    if not groups:
        raise CostModelError(
            "The graph must contain the workloads of its kernels, but has none. Use a Relax module, a "
            "trace that was recorded with record_shapes=True, or `workload` in your own JSON."
        )
    yield from groups


def _without_epilogue(workload: Workload) -> Workload | None:
    if workload.is_foreign or not workload.operator.epilogue:
        return None
    return Workload(workload.operator.anchor, workload.dims, workload.dtype)


def _epilogue_bytes(workload: Workload) -> int:
    """Bytes that an epilogue of its own moves: the result of the anchor, its inputs, and the output."""
    anchor = OPERATORS[workload.operator.anchor]
    elements = int(np.prod(workload.operator.output(workload.dims)))
    own = workload.operator.elements(workload.dims) - anchor.elements(workload.dims)
    return (2 * elements + own) * DTYPE_BYTES[workload.dtype]
