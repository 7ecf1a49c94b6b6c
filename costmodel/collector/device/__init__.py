"""Code that runs in the process that holds the device: timing, SM partitions, state."""

from costmodel.collector.device._co_run import time_side_by_side
from costmodel.collector.device._device import (
    describe_device,
    grant,
    open_device,
    physical_device,
    start_device_worker,
    time_job,
    time_module,
)
from costmodel.collector.device._graph_timer import GraphStopwatch
from costmodel.collector.device._green_context import GreenContexts
from costmodel.collector.device._job import (
    Argument,
    DeviceSetup,
    KernelFaultError,
    KernelJob,
    ModuleJob,
    Timed,
    TimedKernels,
)
from costmodel.collector.device._neighbours import Lane, NeighbourTimer
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._pulse import Pulse
from costmodel.collector.device._spin_kernel import SpinKernel, nvrtc_cubin, verify_grant
from costmodel.collector.device._state import THROTTLE_REASONS, StateReader, pci_bus_id
from costmodel.collector.device._timing import (
    MOST_RUNS_AT_ONCE,
    Repeats,
    Stopwatch,
    Timing,
    half_interval,
    runs_within,
    time_kernels,
)
from costmodel.collector.device._workload_data import KeptData, WorkloadData

__all__ = [
    "MOST_RUNS_AT_ONCE",
    "THROTTLE_REASONS",
    "Argument",
    "DeviceSetup",
    "GraphStopwatch",
    "GreenContexts",
    "KeptData",
    "KernelFaultError",
    "KernelJob",
    "Lane",
    "ModuleJob",
    "NeighbourTimer",
    "Pace",
    "Pulse",
    "Repeats",
    "SpinKernel",
    "StateReader",
    "Stopwatch",
    "Timed",
    "TimedKernels",
    "Timing",
    "WorkloadData",
    "describe_device",
    "grant",
    "half_interval",
    "nvrtc_cubin",
    "open_device",
    "pci_bus_id",
    "physical_device",
    "runs_within",
    "start_device_worker",
    "time_job",
    "time_kernels",
    "time_module",
    "time_side_by_side",
    "verify_grant",
]
