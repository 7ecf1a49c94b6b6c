"""What kernels take at least: a start, and the time to move their data or to compute."""

import numpy as np

from costmodel.planner.latencies._base import KernelTable, Latencies
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

# By the best recorded norms and softmaxes of datasets/sm-budgets on 8 to 132 SMs: the smallest take 1.7 us.
# rms_norm-m512-n4096, which moves 17 MB, takes 25.3 us on 8 SMs and 7.5 us on 32, softmax-m6144-n512, which
# moves 25 MB, 5.4 us on all of an H200. No best kernel there is faster than these make it.
_START_S = 1.5e-6
_BYTES_PER_SM_S = 88e9
L2_BYTES_S = 6.4e12


class RooflineLatencies(Latencies):
    """Latencies from a roofline: a start-up time, and the longer of data movement and arithmetic.

    This is a lower bound for a kernel, and about the latency of one that only moves data.

    Args:
        device: The device.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def kernels(self, workload: Workload) -> KernelTable | None:
        """Return the kernels of a workload, see ``Latencies``; None if only the workload's name is known."""
        if not workload.min_bytes:
            return None
        sms = tuple(range(1, self.device.sms + 1))
        seconds = [self.seconds(each, workload) for each in sms]
        return KernelTable(("roofline",), sms, np.array([seconds]), "estimated")

    def seconds(self, sms: int, workload: Workload) -> float:
        """Return the seconds that a kernel of a workload takes on this number of SMs."""
        is_half = workload.dtype == "float16"
        lanes = 2.0 * self.device.fp32_lanes_per_sm
        flops = max(lanes, self.device.tensor_flops_per_sm_clock) if is_half else lanes
        peak = sms * flops * self.device.clock_mhz * 1e6
        computing = workload.flops / peak if peak else 0.0
        return max(self.moving_s(sms, workload.min_bytes), _START_S + computing)

    def moving_s(self, sms: int, moved_bytes: int) -> float:
        """Return the seconds for moving these bytes on this number of SMs, through L2 if they fit there."""
        is_cached = moved_bytes <= self.device.l2_bytes
        most = L2_BYTES_S if is_cached else self.device.bandwidth_gb_s * 1e9 or L2_BYTES_S
        return _START_S + moved_bytes / min(sms * _BYTES_PER_SM_S, most)
