"""What a whole model would take, if: kernel graphs, placement, synchronisation of tiles.

Example:
    >>> from costmodel.planner import plan
    >>> plan("trace.json", "graphs,scale:matmul=0.5").speedup  # doctest: +SKIP
    1.7
"""

from costmodel.planner.graphs import (
    Dependencies,
    DependencyKind,
    Inspection,
    KernelGraph,
    RecordedGraph,
    Resource,
    TaskKind,
    read_graph,
    read_kineto,
)
from costmodel.planner.replay import CriticalPath, Timeline, critical_path, replay
from costmodel.planner.report import Plan, plan
from costmodel.planner.sweep import SweptPlan, sweep_plan
from costmodel.planner.whatif import (
    OnDevice,
    fuse,
    fused_optimizer,
    half_precision,
    on_device,
    on_sms,
    on_streams,
    remove_launches,
    replace_latencies,
    scale,
    without_profiler,
)

__all__ = [
    "CriticalPath",
    "Dependencies",
    "DependencyKind",
    "Inspection",
    "KernelGraph",
    "OnDevice",
    "Plan",
    "RecordedGraph",
    "Resource",
    "SweptPlan",
    "TaskKind",
    "Timeline",
    "critical_path",
    "fuse",
    "fused_optimizer",
    "half_precision",
    "on_device",
    "on_sms",
    "on_streams",
    "plan",
    "read_graph",
    "read_kineto",
    "remove_launches",
    "replace_latencies",
    "replay",
    "scale",
    "sweep_plan",
    "without_profiler",
]
