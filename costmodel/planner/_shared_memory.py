"""Kernels on disjoint SMs, which share the L2 cache and the device's memory.

Notations: k kernels run beside each other, each over and over. What one reads and writes, each byte once, are
its bytes. Until a kernel uses a byte again, the bytes pass through the cache that all use in the time of one
of its runs; the more these are, the more of its bytes are missed and come from the memory. The load that
others put on the memory is the part of its bandwidth that they take alone.

A kernel is as slow as its fair share of the bandwidth makes it (who asks for less than an equal share gets
it), or as its waits do, which grow with the load: all wait somewhat, short ones and those that stream more.

References:
    D. Bertsekas, R. Gallager, Data Networks, 2nd edition, 1992, section 6.5.2: max-min fairness.
    R. L. Mattson et al., Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970: what
    passes through a cache between two uses of a byte tells whether it is still there.
"""

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.errors import CostModelError
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.whatif._sharing import RunningKernel, Slowdown
from costmodel.records._platform import Device
from costmodel.records._workload import Workload

# Of the cache. With all of it, errors are the same within .1 %.
_CACHE = 0.5
_SHORT_S = 5e-6


class Waits(NamedTuple):
    """How much longer kernels take beside a full load of the memory, over what they take alone.

    The defaults have the least mean error over the pairs of experiments/neighbours.

    Attributes:
        all: Of every kernel.
        short: More of one that takes no time; half of it where it takes 5 us.
        streaming: More of one that takes the memory's whole bandwidth.
    """

    all: float = 0.43
    short: float = 0.70
    streaming: float = 0.82


class SharedMemory:
    """Slowdown of kernels that run at the same time on disjoint SMs.

    The model is fitted to pairs of kernels on an H200; experiments/neighbours gives its error for kernels
    that it was not fitted to. For other devices, bandwidth and cache size come from the data sheet.

    Args:
        device: The device. A device whose L2 cache is unknown is treated as having none.
        waits: The fitted parameters.

    Raises:
        CostModelError: If the device's bandwidth is unknown.
    """

    def __init__(self, device: Device, waits: Waits = Waits()) -> None:  # noqa: B008 (it cannot be changed)
        if not device.bandwidth_gb_s > 0:
            raise CostModelError(
                f"A device must have a known memory bandwidth, but {device.name} has "
                f"{device.bandwidth_gb_s:g} GB/s: describe it, as in bandwidth:3352."
            )
        self.device = device
        self._bytes_s, self._cache_bytes = device.bandwidth_gb_s * 1e9, _CACHE * device.l2_bytes
        self._waits = waits

    def slowdowns(self, latencies_s: Sequence[float], sizes_bytes: Sequence[int]) -> list[float]:
        """Return the latency of each kernel next to the others, divided by its latency alone on the same SMs.

        Args:
            latencies_s: ``(k,)`` latencies alone on these SMs in seconds, positive.
            sizes_bytes: ``(k,)`` bytes of each kernel; 0 if unknown, which counts as moving none.

        Returns:
            ``(k,)`` factors of at least 1.
        """
        kernels = list(zip(latencies_s, sizes_bytes, strict=True))
        loads = [self._part_of_bandwidth(*kernel, kernel[1]) for kernel in kernels]
        found = []
        for i, (seconds, size) in enumerate(kernels):
            others = [*kernels[:i], *kernels[i + 1 :]]
            until_used_again = size + sum(other * min(1.0, seconds / each) for each, other in others)
            asked = self._part_of_bandwidth(seconds, size, until_used_again)
            asked_by_others = [*loads[:i], *loads[i + 1 :]]
            got, *_ = fair_shares([asked, *asked_by_others], 1.0)
            load = min(1.0, sum(asked_by_others))
            waits = self._waits.all + self._waits.short * _SHORT_S / (_SHORT_S + seconds)
            waits += self._waits.streaming * asked
            found.append(max(asked / got if got else 1.0, 1.0 + load * waits))
        return found

    def __call__(self, graph: KernelGraph) -> Slowdown:
        """The same for kernels of a graph that run at once on disjoint SMs.

        A kernel's bytes are those of its workload; one whose workload is not known counts as one that moves
        none. What is no kernel, only starts, or takes no time, neither slows down others nor is slowed down.
        """
        sizes = [_bytes_of(name) for name in graph.workloads]
        of_task = [sizes[i] for i in graph.workload_ids.tolist()]
        alone_s = graph.durations_s.tolist()
        counts = (graph.of_kind(TaskKind.KERNEL) & (graph.durations_s > 0)).tolist()

        def beside(works: Sequence[RunningKernel]) -> list[float]:
            kernels = [work.task for work in works if work.share and counts[work.task]]
            found = self.slowdowns([alone_s[task] for task in kernels], [of_task[task] for task in kernels])
            by_task = dict(zip(kernels, found, strict=True))
            return [by_task.get(work.task, 1.0) for work in works]

        return beside

    def _part_of_bandwidth(self, seconds: float, size: float, until_used_again: float) -> float:
        """What a kernel takes of the memory's bandwidth, at most all of it."""
        missed = until_used_again / (until_used_again + self._cache_bytes) if size else 0.0
        return min(1.0, size * missed / seconds / self._bytes_s)


def fair_shares(asked: Sequence[float], most: float) -> list[float]:
    """Share out something that all may ask too much of: each gets all that it asks for, or an equal share.

    Example:
        >>> fair_shares([1.0, 5.0, 9.0], 9.0)
        [1.0, 4.0, 4.0]
    """
    shares, left = [0.0] * len(asked), most
    by_size = sorted(range(len(asked)), key=lambda i: asked[i])
    for place, i in enumerate(by_size):
        shares[i] = min(asked[i], left / (len(asked) - place))
        left -= shares[i]
    return shares


def _bytes_of(workload: str) -> int:
    return Workload.parse(workload).min_bytes if workload else 0
