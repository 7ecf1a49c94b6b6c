"""Runners: what measures candidates, or serves what was measured."""

from costmodel.collector.runners._base import Request, Runner
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.collector.runners._cpu import CpuRunner
from costmodel.collector.runners._cuda import CudaRunner
from costmodel.collector.runners._device_runner import default_builders
from costmodel.collector.runners._mps import MpsDaemon, check_shared_daemon, percentage_of
from costmodel.collector.runners._recorded import RecordedRunner
from costmodel.collector.runners._replay import ReplayRunner
from costmodel.collector.runners._wrapped import WrappedRunner

__all__ = [
    "CpuRunner",
    "CudaRunner",
    "DeviceJobs",
    "MpsDaemon",
    "RecordedRunner",
    "ReplayRunner",
    "Request",
    "Runner",
    "WrappedRunner",
    "check_shared_daemon",
    "default_builders",
    "percentage_of",
]
