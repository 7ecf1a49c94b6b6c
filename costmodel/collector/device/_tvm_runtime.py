"""All that a device worker takes from TVM: loading kernels, arrays, streams, threads and a timer.

Elsewhere in this package a kernel is a module whose function ``main`` takes arrays.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.collector.device._job import Argument
from costmodel.records import TargetKind


class TvmRuntime:
    """TVM's runtime on the first device of a kind that this process sees."""

    def __init__(self, kind: TargetKind) -> None:
        import tvm

        self._tvm = tvm
        self._device = tvm.device(kind, 0)

    @property
    def version(self) -> str:
        """Of TVM."""
        return str(self._tvm.__version__)

    def load(self, library: Path) -> Any:
        """The module of a shared library."""
        return self._tvm.runtime.load_module(str(library))

    def copies(self, arrays: Sequence[Any]) -> list[Any]:
        """Copies of arrays on the device."""
        return [self._tvm.runtime.tensor(array, self._device) for array in arrays]

    def random_arrays(self, arguments: Sequence[Argument]) -> list[Any]:
        """Arrays on the device, full of what TVM's own runner measures with."""
        fill = self._tvm.get_global_func("tvm.contrib.random.random_fill_for_measure")
        arrays = [self._tvm.runtime.empty(each.shape, each.dtype, self._device) for each in arguments]
        for array in arrays:
            fill(array)
        return arrays

    def use_stream(self, stream: int) -> None:
        """Launch what follows in this thread on a CUDA stream, given by its handle."""
        self._device.set_raw_stream(stream)

    def use_threads(self, threads: int) -> None:
        """Run what follows on so many threads of a CPU."""
        self._tvm.get_global_func("runtime.config_threadpool")(1, threads)

    def time(self, module: Any, arguments: Sequence[Any], runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs after one that does not count."""
        timer = module.time_evaluator("main", self._device, number=runs, repeat=1)
        return float(timer(*arguments).results[0])
