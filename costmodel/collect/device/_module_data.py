"""Arguments of modules of any kind on a device. Runs in the device worker."""

from collections.abc import Sequence
from typing import Any, Self

from costmodel.collect.device._job import Argument


class ModuleData:
    """Arrays full of what TVM's own runner measures with.

    Attributes:
        arrays: The arrays, on the device.
    """

    def __init__(self, arguments: Sequence[Argument], device: Any) -> None:
        import tvm

        fill = tvm.get_global_func("tvm.contrib.random.random_fill_for_measure")
        self._arguments = tuple(arguments)
        self.arrays = [tvm.runtime.empty(each.shape, each.dtype, device) for each in arguments]
        for array in self.arrays:
            fill(array)

    @classmethod
    def renewed(cls, known: Self | None, arguments: Sequence[Argument], device: Any) -> Self:
        """``known`` where it is of these arguments: kernels of one task are timed on the same memory."""
        if known is not None and known._arguments == tuple(arguments):
            return known
        return cls(arguments, device)
