"""How long matrix products in float32 take on a GPU: rounds of tiles on its lanes, traffic, and a start.

    t = start + max(rounds of tiles / (reached x peak), bytes / bandwidth)

Of the peak, products reach a share that is the same on all GPUs, less where an SM starts no more instructions
than it has lanes for, and never more than the board has the power for (``held_share``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._peak_rates import (
    FLOPS_PER_J,
    UNKNOWN_LANES,
    ReachedRates,
    held_share,
    least_latency_s,
    peak_rates,
    power_is_known,
)
from costmodel.records._platform import Device, compute_capability
from costmodel.records._workload import Workload

# Rows and columns of the tiles that cuBLAS takes for products in float32.
_TILES = ((32, 32), (64, 32), (64, 64), (128, 32), (32, 128), (128, 64), (128, 128), (256, 128), (128, 256))
_LEAST_DEPTH, _MOST_SPLITS = 256, 16  # of a sum, before several blocks share it
# A thread with a tile of 8 x 8 loads 16 numbers by 4 instructions for 64 multiply-adds. An SM of 128 lanes
# starts 128 of all of these a clock, one of 64 lanes loads beside its multiply-adds.
_WIDE_LANES, _OF_WIDE_LANES = 128, 64 / 68
_BYTES = 4


@dataclass(frozen=True)
class LaneLaw:
    """What products in float32 take.

    Attributes:
        lanes: Share of the peak that large tiles reach, where power and instructions allow.
        tile_wait: Rows, and columns, of a tile that cost as much as its operands.
        start_s: Seconds that each takes to start.
        flops_per_j: See ``held_share``.
        spread: Half width of a 90 % interval, in log seconds, on a GPU that nothing was learned from.
    """

    lanes: float
    tile_wait: float
    start_s: float
    flops_per_j: float = FLOPS_PER_J
    spread: float = 0.0

    def seconds(self, rows: FloatArray, columns: FloatArray, depth: FloatArray, device: Device) -> FloatArray:
        """Return what products take on a device, ``(n,)`` seconds, for ``(n,)`` sizes of each."""
        of_an_sm = peak_rates(device).fp32_tflops * 1e12 / device.sms * self.share_of(device)
        best = np.full(len(rows), np.inf)
        for height, width in _TILES:
            blocks = np.ceil(rows / height) * np.ceil(columns / width)
            most = np.clip(depth // _LEAST_DEPTH, 1, _MOST_SPLITS)
            splits = np.clip(device.sms // blocks, 1, most)
            each_s = 2 * height * width * depth * (1 + self.tile_wait * (1 / height + 1 / width)) / of_an_sm
            best = np.minimum(best, np.ceil(blocks * splits / device.sms) * each_s / splits)
        moved = _BYTES * (rows * depth + depth * columns + rows * columns)
        moving = moved / (device.bandwidth_gb_s * 1e9 * ReachedRates().bandwidth)
        return np.asarray(self.start_s + np.maximum(best, moving))

    def share_of(self, device: Device) -> float:
        """Return the share of its peak that large tiles reach on a device."""
        slots = _OF_WIDE_LANES if device.fp32_lanes_per_sm >= _WIDE_LANES else 1.0
        return min(self.lanes * slots, held_share(device, self.flops_per_j))


# By experiments/another_gpu/linear_layers.sh, on all of its GPUs; but the start is that of a kernel, and not
# that of a call from Python, which its table has.
LANE_LAW = LaneLaw(lanes=0.884, tile_wait=4.0, start_s=4e-6, spread=0.232)
# The oldest generation that was learned from, the fewest rows and columns, and the least and the most of the
# T4, V100, L4, A100 and H100; how far a GPU may lie beyond these, as a factor.
_OLDEST, _LEAST_SIDE = 70, 256
_QUANTITIES = "number of SMs", "bandwidth", "float32 rate"
_SPANS = (40, 132), (300, 3352), (8.1, 66.9)
_BEYOND = 2


def is_lane_product(workload: Workload) -> bool:
    """Tell whether a workload is a product that a GPU's lanes compute, unless it is rounded to TF32."""
    return workload.kind == "matmul" and workload.dtype == "float32"


def predict_lane_product(
    workload: Workload, device: Device, measured: Sequence[tuple[Workload, float]] = ()
) -> tuple[float, float | None, float | None, str]:
    """Predict a product in float32 on all SMs of a GPU.

    Args:
        workload: The product.
        device: The GPU.
        measured: Other such products, and the seconds that they took there. Their median corrects all.

    Returns:
        Seconds, the ends of a 90 % interval, or None, and why there is none.

    Raises:
        CostModelError: What was measured is another workload, or too little is known of the GPU.
    """
    if others := [each.name for each, _ in measured if not is_lane_product(each)]:
        raise CostModelError(f"What was measured must be products in float32, too, but got {others[0]}.")
    if not (device.clock_mhz and device.bandwidth_gb_s and device.fp32_lanes_per_sm > UNKNOWN_LANES):
        raise CostModelError(
            f"A GPU must have a clock, a bandwidth and float32 lanes that are known, but {device.name} has "
            "not. Describe it with clock_mhz, bandwidth_gb_s and fp32_lanes_per_sm."
        )
    products = [workload, *(each for each, _ in measured)]
    m, n, k = (np.array([float(each.dims[letter]) for each in products]) for letter in "mnk")
    said_s = LANE_LAW.seconds(m, n, k, device)
    off = np.median(np.log([each for _, each in measured] / said_s[1:])) if measured else 0.0
    floor_s = least_latency_s(workload, device)
    latency_s = max(floor_s, float(said_s[0] * np.exp(off)))
    if note := _why_no_interval(workload, device):
        return latency_s, None, None, note
    times = math.exp(LANE_LAW.spread)
    return latency_s, max(floor_s, latency_s / times), latency_s * times, ""


def _why_no_interval(workload: Workload, device: Device) -> str:
    """Tell why no interval holds; empty if GPUs that were left out back it."""
    capability = compute_capability(device.architecture)
    if not capability:
        return "its architecture is not told"
    if capability < _OLDEST:
        return "nothing was learned from GPUs before Volta"
    if isinstance(device, HypotheticalDevice) or not power_is_known(device):
        return "the power of its board is not known"
    if min(workload.dims["m"], workload.dims["n"]) < _LEAST_SIDE:
        return f"no product in float32 of fewer than {_LEAST_SIDE} rows or columns was measured"
    told = (device.sms, device.bandwidth_gb_s, peak_rates(device).fp32_tflops)
    for name, value, (least, most) in zip(_QUANTITIES, told, _SPANS, strict=True):
        if not least / _BEYOND <= value <= most * _BEYOND:
            return f"its {name} is over {_BEYOND} times, or under 1/{_BEYOND}, of all that was learned from"
    return ""
