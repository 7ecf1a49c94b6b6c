"""What-if transforms: each maps a kernel graph to another one, and states its assumptions."""

from costmodel.planner.whatif._bounds import sm_rounds
from costmodel.planner.whatif._device import OnDevice, on_device
from costmodel.planner.whatif._fuse import ELEMENTWISE, fuse, fused_optimizer
from costmodel.planner.whatif._half import half_precision
from costmodel.planner.whatif._kernels import (
    WorkloadKernels,
    same_kernels_on_sms,
    tuned,
    unfused,
    workload_kernels,
)
from costmodel.planner.whatif._launches import GRAPH_GAP_S, remove_launches
from costmodel.planner.whatif._parse import FORMS, Transform, parse_what_if
from costmodel.planner.whatif._profiler import USUAL_HOST_SHARE, without_profiler
from costmodel.planner.whatif._scale import on_sms, replace_latencies, scale
from costmodel.planner.whatif._schedule import Kernels, best_schedule, on_best_streams
from costmodel.planner.whatif._sharing import (
    BESIDE,
    WAIT_S,
    Contention,
    Machine,
    Sharing,
    Slowdown,
    Work,
    beside_others,
    first_come,
)
from costmodel.planner.whatif._streams import minimum_equivalent, on_streams

__all__ = [
    "BESIDE",
    "ELEMENTWISE",
    "FORMS",
    "GRAPH_GAP_S",
    "USUAL_HOST_SHARE",
    "WAIT_S",
    "Contention",
    "Kernels",
    "Machine",
    "OnDevice",
    "Sharing",
    "Slowdown",
    "Transform",
    "Work",
    "WorkloadKernels",
    "beside_others",
    "best_schedule",
    "first_come",
    "fuse",
    "fused_optimizer",
    "half_precision",
    "minimum_equivalent",
    "on_best_streams",
    "on_device",
    "on_sms",
    "on_streams",
    "parse_what_if",
    "remove_launches",
    "replace_latencies",
    "same_kernels_on_sms",
    "scale",
    "sm_rounds",
    "tuned",
    "unfused",
    "without_profiler",
    "workload_kernels",
]
