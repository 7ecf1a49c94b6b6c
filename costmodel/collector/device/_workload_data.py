"""Inputs and right outputs of workloads on a device."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.collector.reference import agrees, make_arguments
from costmodel.records import Workload

# Some 70 common operators, and a small part of any GPU that tunes.
_KEPT_BYTES = 4 << 30


class WorkloadData:
    """What the kernels of one workload read and write."""

    def __init__(
        self, workload: Workload, reference: Path, copy: Callable[[Sequence[NDArray[Any]]], list[Any]]
    ) -> None:
        self._copy = copy
        self._arrays = make_arguments(workload)
        self._copies = [copy(self._arrays)]
        self._reference = np.load(reference)

    @property
    def arguments(self) -> list[Any]:
        """Inputs, then the output, on the device."""
        return self._copies[0]

    def copies(self, count: int) -> list[list[Any]]:
        """As many times the arguments, so that kernels can run at once."""
        while len(self._copies) < count:
            self._copies.append(self._copy(self._arrays))
        return self._copies[:count]

    @property
    def bytes(self) -> int:
        """Bytes on the device."""
        return len(self._copies) * sum(array.nbytes for array in self._arrays)

    def poison(self) -> None:
        """Fill the output with NaN."""
        self.arguments[-1].copyfrom(self._arrays[-1])

    @property
    def is_right(self) -> bool:
        """Whether the output is what it should be."""
        return agrees(self.arguments[-1].numpy(), self._reference)


class KeptData:
    """The data of the workloads used last.

    They stay where they are: in which slices of the L2 cache data lie changes with each allocation, and with
    it the latency of the same kernel, by 7 % in one of a hundred repeats on an H200.

    Args:
        limit_bytes: What is kept at most; the current workload's always are.
    """

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[str, WorkloadData] = OrderedDict()

    def get(self, workload: Workload, make: Callable[[], WorkloadData]) -> WorkloadData:
        """The data of a workload, made where they are not kept; the oldest make room."""
        if workload.name not in self._kept:
            self._kept[workload.name] = make()
        self._kept.move_to_end(workload.name)
        while len(self._kept) > 1 and sum(data.bytes for data in self._kept.values()) > self._limit_bytes:
            self._kept.popitem(last=False)
        return self._kept[workload.name]
