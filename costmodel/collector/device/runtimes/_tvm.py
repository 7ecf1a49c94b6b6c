"""All that a device worker takes from TVM."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from costmodel.collector.device._job import Argument
from costmodel.collector.device.runtimes._base import Kernel, Runtime
from costmodel.kernels.metaschedule._without_torch import import_tvm_for
from costmodel.records._platform import TargetKind


class TvmKernel:
    """The function ``main`` of a module."""

    def __init__(self, module: Any) -> None:
        self.module, self._main = module, module["main"]

    def __call__(self, *arguments: Any) -> None:
        """Launch it; it writes its last argument."""
        self._main(*arguments)


class TvmRuntime(Runtime):
    """TVM's runtime: shared libraries that it built."""

    def __init__(self, kind: TargetKind) -> None:
        import_tvm_for(kind)
        import tvm

        self._tvm = tvm
        self._device = tvm.device(kind, 0)

    @property
    def software(self) -> Mapping[str, str]:
        """The version of TVM."""
        return {"tvm": str(self._tvm.__version__)}

    def load(self, artifact: Path) -> TvmKernel:
        """The kernel of a shared library."""
        return TvmKernel(self._tvm.runtime.load_module(str(artifact)))

    def copies(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """Tensors on the device."""
        return [self._tvm.runtime.tensor(array, self._device) for array in arrays]

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy values into a tensor."""
        array.copyfrom(values)

    def read(self, array: Any) -> NDArray[Any]:
        """A copy of a tensor."""
        copy: NDArray[Any] = array.numpy()
        return copy

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

    def time(self, kernel: Kernel, arguments: Sequence[Any], runs: int) -> float:
        """By TVM's own timer."""
        assert isinstance(kernel, TvmKernel)
        timer = kernel.module.time_evaluator("main", self._device, number=runs, repeat=1)
        return float(timer(*arguments).results[0])
