"""Arguments and right outputs of workloads on a device."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.collector.device._runtimes import Runtime
from costmodel.kernels._base import KernelSource
from costmodel.kernels._reference import agrees
from costmodel.records._workload import Workload

# Some 70 common operators, and a small part of any GPU that tunes.
_KEPT_BYTES = 4 << 30
# What kernels of a job wrote is compared when the device is another's. A batch of 16 large products writes
# more than hosts have to spare.
_HELD_BYTES = 1 << 30


class WorkloadData:
    """What the kernels of one workload read and write; it is on the device from its first use there.

    Args:
        source: Where the kernels are from.
        workload: What they compute.
        reference: File of the right outputs; None where nobody knows them, and the first kernel that is
            checked stands for all.
        runtime: What puts arrays on the device.
    """

    def __init__(
        self, source: KernelSource, workload: Workload, reference: Path | None, runtime: Runtime
    ) -> None:
        self._runtime = runtime
        self._arrays = source.arguments(workload)
        self._outputs = source.outputs(workload)
        self._tolerance = source.tolerance(workload)
        self._copies: list[list[Any]] = []
        self._reference = _loaded(reference)

    @property
    def arguments(self) -> list[Any]:
        """What a kernel takes, on the device."""
        return self.copies(1)[0]

    def copies(self, count: int) -> list[list[Any]]:
        """As many times the arguments, so that kernels can run at once."""
        while len(self._copies) < count:
            self._copies.append(self._runtime.copies(self._arrays))
        return self._copies[:count]

    @property
    def bytes(self) -> int:
        """Bytes on the device, from the first use there on."""
        return max(1, len(self._copies)) * sum(array.nbytes for array in self._arrays)

    def reset(self) -> None:
        """Give the outputs the values that they have before a run."""
        for position in self._outputs:
            self._runtime.write(self.arguments[position], self._arrays[position])

    def written(self, result: Any = None) -> list[NDArray[Any]]:
        """Return a copy of the outputs as they are now.

        Args:
            result: The output of a kernel that gives it back, in place of the one among the arguments.
        """
        outputs = [self.arguments[position] for position in self._outputs] if result is None else [result]
        return [self._runtime.read(each) for each in outputs]

    def are_right(self, outputs: list[NDArray[Any]]) -> bool:
        """Whether these outputs are what they should be; the device has no part in that."""
        if self._reference is None:
            self._reference = outputs
        return all(map(self._agrees, outputs, self._reference))

    def _agrees(self, output: NDArray[Any], reference: NDArray[Any]) -> bool:
        return agrees(output, reference, self._tolerance)


class Written:
    """What kernels of one workload wrote, held on the host until it is compared; all of it once it is much.

    Args:
        data: Data of the workload.
        limit_bytes: What is held at most, besides the outputs of one kernel.
    """

    def __init__(self, data: WorkloadData, limit_bytes: int = _HELD_BYTES) -> None:
        self._data, self._limit_bytes = data, limit_bytes
        self._held: dict[str, list[NDArray[Any]]] = {}
        self._wrong: list[str] = []

    @property
    def bytes(self) -> int:
        """Bytes that are held."""
        return sum(output.nbytes for outputs in self._held.values() for output in outputs)

    def add(self, id_: str, outputs: list[NDArray[Any]]) -> None:
        """Hold the outputs of a candidate."""
        self._held[id_] = outputs
        if self.bytes > self._limit_bytes:
            self._compare()

    def find_wrong(self) -> list[str]:
        """Return the ids of those that are not what they should be; nothing is held any more."""
        self._compare()
        return self._wrong

    def _compare(self) -> None:
        while self._held:
            id_ = next(
                iter(self._held)
            )  # in order: where nobody knows the right outputs, the first stand for all
            if not self._data.are_right(self._held.pop(id_)):
                self._wrong.append(id_)


def _loaded(reference: Path | None) -> list[NDArray[Any]] | None:
    if reference is None:
        return None
    with np.load(reference, allow_pickle=False) as kept:
        return [kept[f"arr_{i}"] for i in range(len(kept.files))]


class KeptData:
    """The data of the workloads used last.

    They stay where they are: in which slices of the L2 cache data lie changes with each allocation, and with
    it the latency of the same kernel, by 7 % in one of a hundred repeats on an H200.

    Args:
        limit_bytes: What is kept at most; the current workload's always are.
    """

    def __init__(self, limit_bytes: int = _KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[tuple[str, str], WorkloadData] = OrderedDict()

    def get(self, source: str, workload: Workload, make: Callable[[], WorkloadData]) -> WorkloadData:
        """The data of a workload for a source, made where they are not kept; the oldest make room."""
        key = source, workload.name
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and sum(data.bytes for data in self._kept.values()) > self._limit_bytes:
            self._kept.popitem(last=False)
        return self._kept[key]
