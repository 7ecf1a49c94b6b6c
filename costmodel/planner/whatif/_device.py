"""Kernels on another device: a real one, or one that was made up."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._kernel_time import (
    START_S,
    find_lane_products,
    find_products,
    find_vector_products,
    pace_on,
    raise_to_floor,
    scale_work,
    slow_by_memory,
)
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device

# What a kernel is taken to wait for: what its name says, or what makes it take the least or the most.
Bound = Literal["by name", "fastest", "slowest"]
_ASSUMED: dict[Bound, str] = {
    "by name": "products go with rounds of blocks and the rate of CUDA cores or, by type, of Tensor Cores, "
    "others with rounds and clock, and what the memory takes of them, little of products and most of others, "
    "with bandwidth; rates and bandwidths as far as they are known to be reached",
    "fastest": "each goes with what helps it most of rounds, rates and bandwidth",
    "slowest": "each goes with what helps it least of rounds, rates and bandwidth",
}


@dataclass(frozen=True)
class OnDevice:
    """The transform ``on_device``, which can also give bounds for its estimate.

    Attributes:
        recorded: Device that the kernels were recorded on.
        device: Device that they are to run on.
        bound: What limits the kernels.
    """

    recorded: Device
    device: Device
    bound: Bound = "by name"

    def __call__(self, graph: KernelGraph) -> KernelGraph:
        """Each kernel of a graph on the other device."""
        return on_device(graph, self.recorded, self.device, bound=self.bound)

    @property
    def ends(self) -> "tuple[OnDevice, OnDevice]":
        """Return the transforms to the least and to the most time that each kernel could take."""
        return replace(self, bound="fastest"), replace(self, bound="slowest")


def on_device(
    graph: KernelGraph, recorded: Device, device: Device, *, bound: Bound = "by name"
) -> KernelGraph:
    """Estimate each kernel on another device.

    A trace contains the blocks and the time of a kernel, but not its flops and bytes. Its time could scale
    with:

    - the rounds of blocks of the fullest SM / clock, as that SM sets the pace, or 1 / SMs if the blocks are
      unknown,
    - that, divided by the float32 lanes of an SM or, for matrix products, by its Tensor rate,
    - or 1 / memory bandwidth of the device.

    Matrix products are assumed to scale with the Tensor rate or, in float32 and for vectors, with the lanes,
    and other kernels with the first. In addition, the part of the time that memory takes, small for products
    and large for most others, scales with the bandwidth. A rate that is not known for both devices counts as
    equal. Of the rates of a datasheet counts what a device reaches, where that is known.

    Args:
        graph: The graph.
        recorded: Device that the graph was recorded on. If the graph contains the numbers of SMs of kernels,
            these are used.
        device: Device that the kernels are to run on, with all its SMs.
        bound: ``fastest`` and ``slowest`` use the scaling with which each kernel takes the least and the most
            time, and between architectures a fifth more on either side.

    Raises:
        CostModelError: If a device is a CPU, or its number of SMs is unknown, or the graph says that it was
            recorded on another one.
    """
    for each in (recorded, device):
        if each.kind == "cpu" or each.sms < 1:
            raise CostModelError(
                f"Kernels run on GPUs whose number of SMs is known, but got {each.name}: name another, or "
                "describe it."
            )
    if graph.device and graph.device.name != recorded.name:
        raise CostModelError(
            f"The device that the graph was recorded on must be named, which is {graph.device.name}, but got "
            f"{recorded.name}: write device:{graph.device.name}={device.name}."
        )
    work = _work(graph, recorded, device, bound)
    kernels = graph.of_kind(TaskKind.KERNEL)
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {device.name} in place of {recorded.name}: {_ASSUMED[bound]}; beside "
        f"{START_S * 1e6:g} us to start; copies, launches and the host take the same.",
        durations_s=scale_work(graph, work),
        sms=np.where(kernels, device.sms, graph.sms).astype(np.int32),
        device=device,
    )
    return raise_to_floor(graph if graph.device else graph.assuming(device=recorded), changed)


def _work(graph: KernelGraph, recorded: Device, device: Device, bound: Bound) -> FloatArray:
    """``(n,)`` what kernels take of their work."""
    had = np.where(graph.sms > 0, graph.sms, recorded.sms)
    reached, reaches = _reached(recorded), _reached(device)
    by_clock = pace_on(graph, had, device.sms) * _times(recorded.clock_mhz, device.clock_mhz)
    by_lanes = by_clock * _times(
        recorded.fp32_lanes_per_sm * reached.lanes, device.fp32_lanes_per_sm * reaches.lanes
    )
    by_tensor = by_clock * _times(recorded.tensor_flops_per_sm_clock, device.tensor_flops_per_sm_clock)
    by_rate = np.where(find_lane_products(graph) | find_vector_products(graph), by_lanes, by_tensor)
    by_bandwidth = _times(
        recorded.bandwidth_gb_s * reached.bandwidth, device.bandwidth_gb_s * reaches.bandwidth
    )
    of_products = find_products(graph)
    if bound == "by name":
        return slow_by_memory(graph, np.where(of_products, by_rate, by_clock), by_bandwidth)
    of_kind = np.where(of_products, by_tensor, by_lanes)
    every = np.stack([by_clock, by_lanes, of_kind, np.full(len(graph), by_bandwidth)])
    margin = 1.0 if recorded.architecture == device.architecture else _MARGIN
    return np.asarray(every.min(axis=0) / margin if bound == "fastest" else every.max(axis=0) * margin)


class _Reached(NamedTuple):
    """What long kernels reach of a datasheet: of the float32 rate of lanes, and of the bandwidth."""

    lanes: float = 0.93
    bandwidth: float = 0.85


# By linear layers (cuBLAS, float32) and additions of 0.5 GB with PyTorch 2.1. The A100's rates and all
# bandwidths were checked in the public data of NeuSight (S. Lee et al., ASPLOS 2025); the rates of T4, L4 and
# V100 are as reported to us. Boards of 70 W cannot hold their clocks. What other GPUs reach is assumed.
_REACHED = {
    "Tesla T4": _Reached(0.48, 0.76),
    "NVIDIA L4": _Reached(lanes=0.29),
    "Tesla V100-PCIE-32GB": _Reached(0.94, 0.90),
    "NVIDIA A100-PCIE-40GB": _Reached(0.93, 0.84),
}
# How far the ends of a range lie beyond ratios of rates where devices reach other parts of them.
_MARGIN = 1.2


def _reached(device: Device) -> _Reached:
    real = device.of if isinstance(device, HypotheticalDevice) else device
    return _REACHED.get(real.name, _Reached())


def _times(recorded: float, other: float) -> float:
    """How many times as long what goes with a rate takes; 1 where one of them is unknown."""
    return recorded / other if recorded and other else 1.0
