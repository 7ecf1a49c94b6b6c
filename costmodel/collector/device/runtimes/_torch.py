"""Calls of PyTorch, which runs the libraries of the vendor."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.collector.device.runtimes._base import Kernel, Runtime
from costmodel.records._platform import TargetKind


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
        from costmodel.kernels.library._note import load_call

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
        copy: NDArray[Any] = array.contiguous().cpu().numpy()
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
