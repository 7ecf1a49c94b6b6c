"""Kernels on disjoint SMs, which share the L2 cache and the device's memory.

Notations: k kernels run beside each other, each over and over. What one reads and writes, each byte once, are
its bytes. All pass through the L2 cache. Of bytes that lie in it together as large a part is missed as does
not fit; these come from the device's memory. Cache and memory each give their bytes a second in fair shares:
who asks for less than an equal share gets it.

Reference for fair shares:
    D. Bertsekas, R. Gallager, Data Networks, 2nd edition, 1992, section 6.5.2: max-min fairness.
"""

from collections.abc import Sequence

from costmodel.errors import CostModelError
from costmodel.planner.graphs import KernelGraph
from costmodel.planner.latencies import L2_BYTES_S
from costmodel.planner.whatif import Slowdown, Work
from costmodel.records import Device, Workload


class SharedMemory:
    """How many times as long kernels on disjoint SMs take beside each other.

    A kernel keeps its pace as long as its shares let it. Nothing was learned from kernels beside each other:
    the memory's bandwidth and the size of the cache are those of the data sheet, and how much the cache gives
    is what the fastest kernels alone have got of it.

    Args:
        device: The device; one of which no L2 cache is known has none.
        l2_bytes_s: What the cache gives a second.

    Raises:
        CostModelError: The device's bandwidth is not known.
    """

    def __init__(self, device: Device, *, l2_bytes_s: float = L2_BYTES_S) -> None:
        if not device.bandwidth_gb_s > 0:
            raise CostModelError(
                f"A device whose memory kernels share must have a known bandwidth, but {device.name} has "
                f"{device.bandwidth_gb_s:g} GB/s: describe it, as in bandwidth:3352."
            )
        self.device = device
        self._memory_bytes_s, self._l2_bytes_s = device.bandwidth_gb_s * 1e9, l2_bytes_s

    def slowdowns(self, latencies_s: Sequence[float], sizes_bytes: Sequence[int]) -> list[float]:
        """What each of some kernels takes beside the others over what it takes alone on the same SMs.

        Args:
            latencies_s: ``(k,)`` what they take alone there, positive.
            sizes_bytes: ``(k,)`` their bytes; 0 where not known, which counts as moving none.

        Returns:
            ``(k,)`` factors from 1 on.
        """
        missed = self._missed(sum(sizes_bytes))
        of_cache, of_memory = [], []
        for seconds, size in zip(latencies_s, sizes_bytes, strict=True):
            of_cache.append(min(size / seconds, self._l2_bytes_s))
            fetched_alone = size * self._missed(size)
            overcounted = max(1.0, fetched_alone / seconds / self._memory_bytes_s)
            of_memory.append(size * missed / seconds / overcounted)
        waits = zip(
            _times_as_long(of_cache, self._l2_bytes_s),
            _times_as_long(of_memory, self._memory_bytes_s),
            strict=True,
        )
        return [max(each) for each in waits]

    def __call__(self, graph: KernelGraph) -> Slowdown:
        """The same for kernels of a graph that run at once on disjoint SMs.

        A kernel's bytes are those of its workload; one whose workload is not known counts as one that moves
        none, as does one that only starts.
        """
        sizes = [_bytes_of(name) for name in graph.workloads]
        of_task = [sizes[i] for i in graph.workload_ids.tolist()]
        alone_s = graph.durations_s.tolist()

        def beside(works: Sequence[Work]) -> list[float]:
            known = [of_task[work.task] if work.share else 0 for work in works]
            return self.slowdowns([alone_s[work.task] for work in works], known)

        return beside

    def _missed(self, total_bytes: float) -> float:
        """What part of bytes that are used over and over the cache does not hold."""
        return max(0.0, 1.0 - self.device.l2_bytes / total_bytes) if total_bytes else 0.0


def fair_shares(asked: Sequence[float], most: float) -> list[float]:
    """What each gets of something that all may ask too much of: all that it asks for, or an equal share.

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


def _times_as_long(asked: Sequence[float], most: float) -> list[float]:
    """What is asked for over what is got, at least 1."""
    return [
        max(1.0, wanted / share) if share else 1.0
        for wanted, share in zip(asked, fair_shares(asked, most), strict=True)
    ]


def _bytes_of(workload: str) -> int:
    return Workload.parse(workload).min_bytes if workload else 0
