"""No prediction is faster than the hardware allows: ``least_latency_s`` for the kernels of a graph."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner.graphs._kernel_class import Precision
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._workload import Workload


def above_floor(graph: KernelGraph, changed: KernelGraph) -> KernelGraph:
    """Let no kernel take less than its workload takes at least on the device and SMs that it now has.

    A kernel that was recorded as faster than its workload allows does less than that, such as a convolution
    by Winograd's algorithm; it may stay faster by as much.

    Args:
        graph: As it was.
        changed: The same tasks as predicted.
    """
    least_s = _least_s(changed)
    if not least_s.any():
        return changed
    before_s = _least_s(graph)
    share = np.ones(len(graph))
    np.divide(graph.durations_s, before_s, out=share, where=before_s > 0)
    floor_s = least_s * np.minimum(share, 1.0)
    raised = int((changed.durations_s < floor_s).sum())
    if not raised:
        return changed
    assert changed.device is not None
    return changed.assuming(
        f"{raised:,} kernels take what {changed.device.name} needs at least for their arithmetic and bytes.",
        durations_s=np.maximum(changed.durations_s, floor_s),
    )


def _least_s(graph: KernelGraph) -> FloatArray:
    """``(n,)`` seconds that the workload of a kernel takes at least; 0 where it or the device is unknown."""
    found = np.zeros(len(graph))
    if graph.device is None:
        return found
    kernels = np.flatnonzero(graph.of_kind(TaskKind.KERNEL) & (graph.workload_ids > 0))
    known: dict[tuple[int, int, bool], float] = {}
    for task in kernels.tolist():
        sms, is_tf32 = int(graph.sms[task]), graph.precisions[task] == Precision.TF32
        key = int(graph.workload_ids[task]), sms, bool(is_tf32)
        if key not in known:
            workload = Workload.parse(graph.workload(task))
            known[key] = least_latency_s(workload, graph.device, sms or None, is_tf32=key[-1])
        found[task] = known[key]
    return found
