"""Runners: what measures candidates, or serves what was measured."""

from costmodel.collect.runners._base import Request, Runner
from costmodel.collect.runners._bench import DeviceJobs
from costmodel.collect.runners._cpu import CpuRunner
from costmodel.collect.runners._cuda import CudaRunner
from costmodel.collect.runners._mps import MpsDaemon, percentage_of
from costmodel.collect.runners._replay import ReplayRunner
from costmodel.collect.runners._tvm_runner import default_builders

__all__ = [
    "CpuRunner",
    "CudaRunner",
    "DeviceJobs",
    "MpsDaemon",
    "ReplayRunner",
    "Request",
    "Runner",
    "default_builders",
    "percentage_of",
]
