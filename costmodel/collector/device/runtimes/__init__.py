"""Runtimes: what loads and launches the kernels of a source, by the kind of its artifacts."""

from costmodel.collector.device.runtimes._base import Kernel, Runtime
from costmodel.collector.device.runtimes._cubin import CubinRuntime
from costmodel.collector.device.runtimes._torch import TorchRuntime
from costmodel.collector.device.runtimes._tvm import TvmKernel, TvmRuntime

__all__ = ["CubinRuntime", "Kernel", "Runtime", "TorchRuntime", "TvmKernel", "TvmRuntime"]
