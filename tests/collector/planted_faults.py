"""Builds and kernels that fail on purpose. Worker processes import this module.

A candidate carries its fault as one more decision, which the functions here act on; without one they do what
they stand for. Faulty kernels are real shared libraries, so that they hang and die in native code.
"""

import ctypes
import os
import subprocess
import time
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from costmodel.collector.device._device import open_device, time_job
from costmodel.collector.device._job import DeviceSetup, KernelFaultError, KernelJob, TimedKernels
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.kernels._artifact import Built
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Candidate, Config, Outcome, Workload
from costmodel.records._platform import TargetKind

BODIES = {
    "kernel hangs": 'puts("hanging"); fflush(stdout); for (;;) pause();',
    "kernel dies": "abort();",
    "kernel writes nothing": "return 0;",
    "kernel raises": 'TVMFFIErrorSetRaisedFromCStr("RuntimeError", "too many resources"); return -1;',
    "kernel lacks memory at first": (
        'if (access("LIBRARY.lacked", F_OK) == 0) return 0;'
        'fclose(fopen("LIBRARY.lacked", "w"));'
        'TVMFFIErrorSetRaisedFromCStr("RuntimeError", "CUDA_ERROR_OUT_OF_MEMORY"); return -1;'
    ),
    "kernel sticks": (
        'setenv("PLANTED_STICKY", "1", 1);'
        'TVMFFIErrorSetRaisedFromCStr("RuntimeError", "illegal address"); return -1;'
    ),
}
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
int __tvm_ffi_main(void* self, const void* arguments, int count, void* result) {{ {body} }}
"""


def with_fault(candidate: Candidate, fault: str) -> Candidate:
    """The candidate with a fault planted in it."""
    return msgspec.structs.replace(candidate, config=Config({**candidate.config.decisions, "planted": fault}))


def build_faulty_kernel(body: str, library: Path) -> Built:
    source = library.with_suffix(".c")
    source.write_text(SOURCE.format(body=body.replace("LIBRARY", str(library))))
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    return Built(Outcome.OK, library)


def plant_compiler(folder: Path) -> Path:
    """A folder whose g++ fails."""
    folder.mkdir()
    script = folder / "g++"
    script.write_text("#!/bin/sh\necho 'ld: final link failed: No space left on device' >&2\nexit 1\n")
    script.chmod(0o700)
    return folder


def time_job_where_open(setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """In the place of ``time_job``: opening the device must not be on the time of a kernel.

    What a kernel that sticks leaves behind makes every later job of its process fail, as an illegal address
    does to a CUDA context.
    """
    assert open_device.cache_info().currsize == 1
    if ctypes.CDLL(None).getenv(b"PLANTED_STICKY"):  # os.environ does not see what native code sets
        raise KernelFaultError("the context is broken")
    return time_job(setup, job)


# Workloads whose references fail.
WRONG = Workload.parse("softmax-m16-n32")
DIES_AT_FIRST = Workload.parse("softmax-m32-n16")
REFUSED = Workload.parse("softmax-m16-n16")


class PlantedSource(MetaSchedule):
    """MetaSchedule with builds and references that fail on purpose."""

    def __init__(self, folder: Path) -> None:
        """Say where markers go."""
        self.folder = folder

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        decisions = dict(candidate.config.decisions)
        fault = decisions.pop("planted", "")
        if fault in BODIES:
            return build_faulty_kernel(BODIES[str(fault)], folder / f"{candidate.candidate_id}.so")
        if fault == "build dies":
            os._exit(7)
        if fault == "build hangs":
            time.sleep(600)
        path = plant_compiler(folder / "bin") if fault == "compiler fails" else os.environ["PATH"]
        without = msgspec.structs.replace(candidate, config=Config(decisions))
        with mock.patch.dict(os.environ, PATH=str(path)):
            return super().build(without, kind, architecture, folder)

    def reference(self, workload: Workload) -> list[np.ndarray]:
        marker = self.folder / f"{workload.name}.died"
        if workload == DIES_AT_FIRST and not marker.exists():
            marker.touch()
            os._exit(7)
        if workload == REFUSED:
            raise OSError("the disk is full")
        (output,) = super().reference(workload)
        return [output * (1.001 if workload == WRONG else 1.0)]  # one part in a thousand off


def refuse_to_open(setup: DeviceSetup) -> None:
    """In the place of ``describe_device``."""
    raise RuntimeError("no such device")


def hang_while_opening(begun: Path, setup: DeviceSetup) -> None:
    """In the place of ``describe_device``, once it is told where to say that it has begun."""
    begun.touch()
    time.sleep(600)


def take_too_much_memory(*_: Any, **__: Any) -> None:
    """A function for ``draw``."""
    bytearray(12 << 30)


def die(*_: Any, **__: Any) -> None:
    """Given to ``draw``."""
    os._exit(7)


def hang(*_: Any, **__: Any) -> None:
    """Given to ``draw``."""
    time.sleep(600)


DEVICE_JOBS = DeviceJobs(time=time_job_where_open)
