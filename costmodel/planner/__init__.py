"""Predict the time of whole models under what-if changes: kernel graphs, placement, tile synchronisation.

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
    read_relax,
)
from costmodel.planner.latencies import (
    FirstKnown,
    KernelTable,
    Latencies,
    PredictedLatencies,
    RecordedLatencies,
    RooflineLatencies,
    open_latencies,
)
from costmodel.planner.neighbours import SharedMemory
from costmodel.planner.ranking import Ranking, rank
from costmodel.planner.replay import CriticalPath, Timeline, critical_path, replay
from costmodel.planner.report import Plan, plan
from costmodel.planner.sweep import SweptPlan, sweep_plan
from costmodel.planner.whatif import (
    OnDevice,
    beside_others,
    fuse,
    fused_optimizer,
    half_precision,
    on_best_streams,
    on_device,
    on_sms,
    on_streams,
    remove_launches,
    replace_latencies,
    same_kernels_on_sms,
    scale,
    tuned,
    unfused,
    without_profiler,
)

__all__ = [
    "CriticalPath",
    "Dependencies",
    "DependencyKind",
    "FirstKnown",
    "Inspection",
    "KernelGraph",
    "KernelTable",
    "Latencies",
    "OnDevice",
    "Plan",
    "PredictedLatencies",
    "Ranking",
    "RecordedGraph",
    "RecordedLatencies",
    "Resource",
    "RooflineLatencies",
    "SharedMemory",
    "SweptPlan",
    "TaskKind",
    "Timeline",
    "beside_others",
    "critical_path",
    "fuse",
    "fused_optimizer",
    "half_precision",
    "on_best_streams",
    "on_device",
    "on_sms",
    "on_streams",
    "open_latencies",
    "plan",
    "rank",
    "read_graph",
    "read_kineto",
    "read_relax",
    "remove_launches",
    "replace_latencies",
    "replay",
    "same_kernels_on_sms",
    "scale",
    "sweep_plan",
    "tuned",
    "unfused",
    "without_profiler",
]
