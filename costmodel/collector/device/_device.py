"""The functions that a runner calls in the process of a device worker."""

import os
from contextlib import suppress
from functools import cache

from costmodel.collector.device._job import DeviceSetup, KernelJob, ModuleJob, TimedKernels
from costmodel.collector.device._timing import Timed
from costmodel.collector.device._worker import DeviceWorker
from costmodel.records._platform import Device


@cache
def open_device(setup: DeviceSetup) -> DeviceWorker:
    """The device, opened at the first call in a worker's life."""
    os.environ["TVM_NUM_THREADS"] = str(setup.threads)  # read when TVM loads; a budget can only lower it
    os.environ.update(setup.environment)
    if setup.kind == "cuda":
        from costmodel.collector.device._cuda_worker import CudaWorker  # needs an NVIDIA driver

        return CudaWorker(setup.artifacts, confined=setup.confined)
    from costmodel.collector.device._cpu_worker import CpuWorker

    return CpuWorker(setup.artifacts)


def start_device_worker(setup: DeviceSetup) -> None:
    """Open the device first in a worker's life, where it is on no kernel's time; a job tells what fails."""
    with suppress(Exception):
        open_device(setup)


def describe_device(setup: DeviceSetup) -> tuple[Device, dict[str, str]]:
    """The device and its software versions."""
    return open_device(setup).describe()


def physical_device(setup: DeviceSetup) -> str:
    """What all processes of this machine call the device."""
    return open_device(setup).physical_device


def grant(setup: DeviceSetup, sms: int) -> int:
    """SMs that a budget of ``sms`` gives."""
    return open_device(setup).grant(sms)


def prepare_job(setup: DeviceSetup, job: KernelJob) -> None:
    """Make what kernels read; see ``DeviceWorker.prepare``."""
    open_device(setup).prepare(job)


def time_job(setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """Time kernels; see ``DeviceWorker.time``."""
    return open_device(setup).time(job)


def find_wrong(setup: DeviceSetup, job: KernelJob) -> dict[str, Timed]:
    """Say which of the kernels that were timed are wrong; see ``DeviceWorker.find_wrong``."""
    return open_device(setup).find_wrong(job)


def time_module(setup: DeviceSetup, job: ModuleJob) -> Timed:
    """Time a module; see ``DeviceWorker.time_module``."""
    return open_device(setup).time_module(job)
