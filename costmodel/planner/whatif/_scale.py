"""Kernels that take another time: scaled or measured, on other SMs or another device."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costmodel.arguments import check_whole
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._kernel_time import (
    START_S,
    estimate_on_part,
    find_collectives,
    find_lane_products,
    find_products,
    find_vector_products,
    pace_on,
    raise_to_floor,
    scale_work,
    slow_by_memory,
)
from costmodel.planner.whatif._transform import check_positive, kernels_named
from costmodel.records._hypothetical import HypotheticalDevice, hypothetical
from costmodel.records._peak_rates import reached_rates, tensor_flops_with_float32_sums
from costmodel.records._platform import Device, check_sms
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._calls import compare_devices, is_call
from costmodel.transfer.prediction._lane_products import is_lane_product


def scale(graph: KernelGraph, pattern: str, factor: float) -> KernelGraph:
    """Multiply the durations of kernels, copies and memsets with a matching name by ``factor``.

    Raises:
        CostModelError: If no name matches, or the factor is negative or not finite.
    """
    found = kernels_named(graph, pattern)
    durations = np.where(found, graph.durations_s * check_positive(factor, "factor"), graph.durations_s)
    return graph.assuming(
        f"{found.sum():,} kernels that match {pattern} take {factor:g} times as long.", durations_s=durations
    )


def replace_latencies(graph: KernelGraph, latencies_s: Mapping[str, float]) -> KernelGraph:
    """Set the latencies of kernels, copies and memsets by name pattern; of several matches the last counts.

    Raises:
        CostModelError: If no name matches a pattern, or a latency is negative or not finite.
    """
    durations, sentences = graph.durations_s.copy(), []
    for pattern, latency in latencies_s.items():
        found = kernels_named(graph, pattern)
        durations[found] = check_positive(latency, "latency")
        sentences.append(f"{found.sum():,} kernels that match {pattern} take {latency * 1e6:g} us.")
    return graph.assuming(*sentences, durations_s=durations)


def on_sms(
    graph: KernelGraph,
    sms: int,
    *,
    recorded: int | None = None,
    latencies_s: Mapping[str, Mapping[int, float]] | None = None,
) -> KernelGraph:
    """Estimate each kernel on another number of SMs.

    The SM with the most blocks sets the pace: it runs them in rounds of as many as it holds at once, and a
    few warps take as long as the number that keeps it busy. In addition, all SMs share the memory, which
    takes a small part of a matrix product's time and most of that of others. If the blocks are unknown, work
    scales with 1 / SMs.

    Args:
        graph: The graph.
        sms: Number of SMs of all kernels but collectives, which keep theirs.
        recorded: Number of SMs that the kernels were recorded on. A trace gives that of its GPU, whether or
            not only a part of them was used. Default: the number in the graph.
        latencies_s: Measured or predicted latencies in seconds to use instead, by name pattern and number of
            SMs.

    Raises:
        CostModelError: If the number of SMs that a kernel was recorded on is unknown, or an argument is
            invalid.
    """
    check_whole("sms", sms, 1)
    if graph.device is not None:
        check_sms(graph.device, sms, remedy=f"For a device with more, use the what-if device=sms:{sms}.")
    if recorded is not None:
        check_whole("recorded", recorded, 1)
    kernels = graph.of_kind(TaskKind.KERNEL) & ~find_collectives(graph)
    had = np.where(kernels, recorded or graph.sms, 1)
    if (had < 1).any():
        raise CostModelError(
            "The graph must contain the number of SMs that kernels were recorded on, but does not. Give "
            f"it, as in sms:N={sms} with the N SMs of the GPU that it was recorded on."
        )
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {sms} SMs: work goes with the rounds of blocks of the fullest SM, and "
        f"with what does not depend on SMs, little of products and most of others, beside "
        f"{START_S * 1e6:g} us to start; copies, collectives and the host take the same.",
        durations_s=scale_work(graph, np.where(kernels, estimate_on_part(graph, had, sms), 1.0)),
        sms=np.where(kernels, sms, graph.sms).astype(np.int32),
    )
    changed = raise_to_floor(graph, changed)
    known = {name: curve[sms] for name, curve in (latencies_s or {}).items() if sms in curve}
    return replace_latencies(changed, known) if known else changed


def with_channels(graph: KernelGraph, channels: int) -> KernelGraph:
    """Let collectives have so many thread blocks, each of which holds an SM; they take the same time.

    Raises:
        CostModelError: If the number is not positive, or the graph has no collective.
    """
    check_whole("channels", channels, 1)
    found = find_collectives(graph)
    if not found.any():
        raise CostModelError("A what-if of channels needs collectives, but the graph has none.")
    return graph.assuming(
        f"{found.sum():,} collectives hold {channels} SMs each, and take as long.",
        blocks=np.where(found, channels, graph.blocks).astype(graph.blocks.dtype),
    )


# What a kernel is taken to wait for: what its name says, or what makes it take the least or the most.
Bound = Literal["by name", "fastest", "slowest"]
_BOUNDS: tuple[Bound, ...] = ("fastest", "by name", "slowest")
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
        recorded: Device that the kernels were recorded on. None: that of the graph.
        device: Device that they are to run on. None: the recorded one.
        bound: What limits the kernels.
        changes: Quantities that the device has instead of its own, see ``hypothetical``.
    """

    recorded: Device | None
    device: Device | None
    bound: Bound = "by name"
    changes: tuple[tuple[str, float], ...] = ()

    def __call__(self, graph: KernelGraph) -> KernelGraph:
        """Each kernel of a graph on the other device.

        Raises:
            CostModelError: Nobody knows what the graph was recorded on.
        """
        recorded = self.recorded or recorded_device(graph)
        device = self.device or recorded
        if self.changes:
            device = hypothetical(device, **dict(self.changes))
        return on_device(graph, recorded, device, bound=self.bound)

    @property
    def ends(self) -> "tuple[OnDevice, OnDevice]":
        """Return the transforms to the least and to the most time that each kernel could take."""
        return replace(self, bound="fastest"), replace(self, bound="slowest")


def recorded_device(graph: KernelGraph) -> Device:
    """Return the device that a graph was recorded on.

    Raises:
        CostModelError: The graph does not say it.
    """
    if graph.device is None:
        raise CostModelError(
            "The graph must say which device it was recorded on, but it does not: name it, as in "
            "device:H100 SXM=H200, or --recorded-on 'H100 SXM' for a sweep."
        )
    return graph.device


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
    equal. Of the rates of a datasheet counts what a device reaches, where that is known. Products in float16
    or float32 whose sizes are known take, between real devices on which models of library calls have an
    interval, what these say of the one over what they say of the other.

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
    collectives = int(find_collectives(graph).sum())
    of_links = (
        f"{collectives:,} collectives go with memory and clock, as links are not known: scale them too."
    )
    changed = graph.assuming(
        f"{kernels.sum():,} kernels on {device.name} in place of {recorded.name}: {_ASSUMED[bound]}; beside "
        f"{START_S * 1e6:g} us to start; copies, launches and the host take the same.",
        *([of_links] if collectives else []),
        durations_s=scale_work(graph, work),
        sms=np.where(kernels, device.sms, graph.sms).astype(np.int32),
        device=device,
    )
    return raise_to_floor(graph if graph.device else graph.assuming(device=recorded), changed)


def _work(graph: KernelGraph, recorded: Device, device: Device, bound: Bound) -> FloatArray:
    """``(n,)`` what kernels take of their work."""
    had = np.where(graph.sms > 0, graph.sms, recorded.sms)
    reached, reaches = reached_rates(recorded), reached_rates(device)
    by_clock = pace_on(graph, had, device.sms) * _times(recorded.clock_mhz, device.clock_mhz)
    by_lanes = by_clock * _times(
        recorded.fp32_lanes_per_sm * reached.lanes, device.fp32_lanes_per_sm * reaches.lanes
    )
    by_tensor = by_clock * _times(*map(tensor_flops_with_float32_sums, (recorded, device)))
    by_rate = np.where(find_lane_products(graph) | find_vector_products(graph), by_lanes, by_tensor)
    by_bandwidth = _times(
        recorded.bandwidth_gb_s * reached.bandwidth, device.bandwidth_gb_s * reaches.bandwidth
    )
    of_products = find_products(graph)
    calls, place = _compare_calls(graph, recorded, device), _BOUNDS.index(bound)
    if bound == "by name":
        by_name = slow_by_memory(graph, np.where(of_products, by_rate, by_clock), by_bandwidth)
        return np.where(np.isnan(calls[place]), by_name, calls[place])
    of_kind = np.where(of_products, by_tensor, by_lanes)
    every = np.stack([by_clock, by_lanes, of_kind, np.full(len(graph), by_bandwidth)])
    margin = 1.0 if recorded.architecture == device.architecture else _MARGIN
    end = np.asarray(every.min(axis=0) / margin if bound == "fastest" else every.max(axis=0) * margin)
    return np.where(np.isnan(calls[place]), end, calls[place])


def _compare_calls(graph: KernelGraph, recorded: Device, device: Device) -> FloatArray:
    """``(3, n)`` what calls take that models of calls know, in the order of ``_BOUNDS``; NaN for all else."""
    found = np.full((len(_BOUNDS), len(graph)), np.nan)
    # Trees may rise with SMs or bandwidth, and nothing may on a device that is changed by these alone.
    if isinstance(device, HypotheticalDevice):
        return found
    for number, name in enumerate(graph.workloads):
        if name and is_call(workload := Workload.parse(name)):
            those = find_lane_products(graph) if is_lane_product(workload) else find_products(graph)
            of_it = those & (graph.workload_ids == number)
            if of_it.any() and (times := compare_devices(workload, recorded, device)):
                found[:, of_it] = np.array(times)[:, None]
    return found


# How far the ends of a range lie beyond ratios of rates where devices reach other parts of them.
_MARGIN = 1.2


def _times(recorded: float, other: float) -> float:
    """How many times as long what goes with a rate takes; 1 where one of them is unknown."""
    return recorded / other if recorded and other else 1.0
