"""What the process of a device is asked to do in the place of ``time_job``. Worker processes import this."""

import os
import time
from pathlib import Path
from typing import Any

from costmodel.collector.device._device import find_wrong, open_device, prepare_job, time_job
from costmodel.collector.device._job import DeviceSetup, KernelFaultError, KernelJob, TimedKernels
from costmodel.collector.device._timing import Timed
from costmodel.liveness import WHOLE, SmLedger

_LONGER_S = 0.3
_PATIENCE_S = 240.0  # of the 300 that a job of these tests has
_BLOCKS_OF_SM = 32  # that an SM holds at once
_SPIN_CYCLES = 200_000_000  # 0.1 s
_MEETING: list[Any] = []


def time_and_note(folder: Path, setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """Time a job for longer than it takes, so that others may meet it, and note from when to when."""
    begin = time.monotonic()
    found = time_job(setup, job)
    time.sleep(_LONGER_S)
    with (folder / f"{os.getpid()}.txt").open("a") as file:
        file.write(f"{begin} {time.monotonic()}\n")
    return found


def time_when_two_are_here(folder: Path, setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """Time a job once another process is asked to time one, too.

    Raises:
        KernelFaultError: None is.
    """
    (folder / str(os.getpid())).touch()
    end = time.monotonic() + _PATIENCE_S
    while len(list(folder.iterdir())) < 2:
        if time.monotonic() > end:
            raise KernelFaultError("nobody else came")
        time.sleep(0.01)
    return time_job(setup, job)


def take_and_prepare(setup: DeviceSetup, job: KernelJob) -> None:
    """Prepare a job with the device taken, as another process would measure meanwhile."""
    with SmLedger(open_device(setup).physical_device).taken(WHOLE):
        prepare_job(setup, job)


def take_and_find_wrong(setup: DeviceSetup, job: KernelJob) -> dict[str, Timed]:
    """Compare outputs with the device taken, as another process would measure meanwhile."""
    with SmLedger(open_device(setup).physical_device).taken(WHOLE):
        return find_wrong(setup, job)


def find_wrong_too_late(setup: DeviceSetup, job: KernelJob) -> dict[str, Timed]:
    """Compare outputs that are not there any more, as in a process that took the place of another."""
    find_wrong(setup, job)
    return find_wrong(setup, job)


def fault_on_lanes(setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """Time a job, unless it is on a lane, where the kernel of another process may end it.

    Raises:
        KernelFaultError: It is.
    """
    if job.lane is not None:
        raise KernelFaultError("the context of another process failed")
    return time_job(setup, job)


def sms_of_lane(lane: range) -> frozenset[int]:
    """The SMs that kernels of a lane of a GPU run on, as this process sees it."""
    device = open_device(DeviceSetup("cuda", 1, artifacts=(".cubin",)))
    return device.sm_ids(lane)  # type: ignore[attr-defined, no-any-return]


def meet_at(barrier: Any) -> None:
    """What processes wait at before they fill their lanes."""
    _MEETING.append(barrier)


def seconds_to_fill(lane: range) -> float:
    """How long blocks spin that take all room on a lane, while other processes have theirs spin.

    Where two lanes had SMs in common, blocks of one would wait for those of the other.
    """
    device: Any = open_device(DeviceSetup("cuda", 1, artifacts=(".cubin",)))
    stream, blocks = device._contexts.lane(lane), _BLOCKS_OF_SM * len(lane)
    for cycles in (1000, _SPIN_CYCLES):  # the first loads the kernel
        _MEETING[0].wait()
        begin = time.monotonic()
        device._spin._launch(stream, blocks, cycles)
        device._contexts.call(device._contexts.driver.cuStreamSynchronize(stream))
    return time.monotonic() - begin
