"""Runtimes of a device worker: loading kernels, arrays, streams, threads and a timer, by TVM or by torch."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.collector.device._job import ArrayArgument
from costmodel.kernels.metaschedule._tvm_start import import_tvm_for
from costmodel.records._platform import TargetKind

# Launches a kernel with arrays of its runtime. What it gives back, if anything, is its output in place of the
# last argument.
Kernel = Callable[..., Any]

# Types of arrays that may hold positions in others.
_POSITIONS = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64"})


class Runtime(ABC):
    """Loads and launches kernels of one kind of artifact on the first device that this process sees."""

    @property
    @abstractmethod
    def software(self) -> Mapping[str, str]:
        """Versions that can change a latency, by name."""

    @abstractmethod
    def load(self, artifact: Path) -> Kernel:
        """The kernel of an artifact."""

    @abstractmethod
    def copies(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """Copies of arrays on the device; those without axes stay values where kernels take them so."""

    @abstractmethod
    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy values into an array on the device."""

    @abstractmethod
    def read(self, array: Any) -> NDArray[Any]:
        """A copy of an array on the device."""

    def use_stream(self, stream: int) -> None:
        """Launch what follows in this thread on a CUDA stream, given by its handle."""
        raise NotImplementedError

    def use_threads(self, threads: int) -> None:
        """Run what follows on so many threads of a CPU."""
        raise NotImplementedError

    def time(self, kernel: Kernel, arguments: Sequence[Any], runs: int) -> float:
        """Seconds of one run on a CPU, the mean of ``runs`` back-to-back runs after one that is not timed."""
        raise NotImplementedError


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

    def random_arrays(self, arguments: Sequence[ArrayArgument]) -> list[Any]:
        """Arrays on the device, full of what TVM's own runner measures with; of wide integers, of 0 and 1.

        These may be positions in other arrays: beyond their ends, a kernel would take the process with it.
        """
        fill = self._tvm.get_global_func("tvm.contrib.random.random_fill_for_measure")
        arrays = [self._tvm.runtime.empty(each.shape, each.dtype, self._device) for each in arguments]
        rng = np.random.default_rng(0)
        for array, each in zip(arrays, arguments, strict=True):
            if each.dtype in _POSITIONS:
                array.copyfrom(rng.integers(0, 2, each.shape).astype(each.dtype))
            else:
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


class TorchRuntime(Runtime):
    """PyTorch on the first GPU, or on the CPU: calls by name."""

    def __init__(self, kind: TargetKind) -> None:
        import torch

        self._torch = torch
        self._device = torch.device("cuda", 0) if kind == "cuda" else torch.device("cpu")
        torch.set_grad_enabled(False)

    @property
    def software(self) -> Mapping[str, str]:
        """The versions of PyTorch and cuDNN."""
        found = {"torch": str(self._torch.__version__)}
        if self._device.type == "cuda":
            found["cudnn"] = str(self._torch.backends.cudnn.version())
        return found

    def load(self, artifact: Path) -> Kernel:
        """The call that an artifact names."""
        from costmodel.kernels.library._source import load_call

        call = load_call(artifact)
        return lambda *tensors: call(tensors)

    def copies(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        """Tensors on the device."""
        return [self._torch.from_numpy(array).to(self._device, copy=True) for array in arrays]

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy values into a tensor."""
        array.copy_(self._torch.from_numpy(np.ascontiguousarray(values)))

    def read(self, array: Any) -> NDArray[Any]:
        """A copy of a tensor."""
        copy: NDArray[Any] = array.contiguous().to("cpu", copy=True).numpy()  # of a CPU's tensor, too
        return copy

    def use_stream(self, stream: int) -> None:
        """Launch what follows in this thread on a CUDA stream, given by its handle."""
        self._torch.cuda.set_stream(self._torch.cuda.ExternalStream(stream, device=self._device))

    def use_threads(self, threads: int) -> None:
        """Run what follows on so many threads of a CPU."""
        self._torch.set_num_threads(threads)

    def time(self, kernel: Kernel, arguments: Sequence[Any], runs: int) -> float:
        """By the clock of the host."""
        kernel(*arguments)
        start = time.perf_counter()
        for _ in range(runs):
            kernel(*arguments)
        return (time.perf_counter() - start) / runs
