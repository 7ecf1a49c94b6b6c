"""Requests to the process that uses a device, and its answers."""

from pathlib import Path

import msgspec

from costmodel.collector.device._timing import Timed, Timing
from costmodel.kernels._base import KernelSource
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


class DeviceSetup(msgspec.Struct, frozen=True):
    """Which device a worker process opens, and how.

    Attributes:
        kind: Kind of device.
        threads: Hardware threads of a CPU.
        confined: Whether the process itself is confined to part of the device, as MPS does.
        environment: Variables that the process needs before it opens the device.
        artifacts: How the files of the kernels end that will be timed, see ``KernelSource.artifact``.
    """

    kind: TargetKind
    threads: int
    confined: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    artifacts: tuple[str, ...] = (".so",)


class KernelJob(msgspec.Struct, frozen=True):
    """Kernels of one workload to time.

    Attributes:
        source: Where they are from.
        workload: What they compute.
        reference: File of the right outputs; None where nobody knows them.
        libraries: By number of SMs, the artifacts to time there, named by the candidates' ids; one number of
            SMs after the other.
        timing: How to time.
        partitions: Equal partitions that time at once; 1 for one kernel at a time.
        lane: The SMs to time on, where other processes measure on the others meanwhile.
    """

    source: KernelSource
    workload: Workload
    reference: Path | None
    libraries: dict[int, tuple[Path, ...]]
    timing: Timing
    partitions: int = 1
    lane: range | None = None


class ArrayArgument(msgspec.Struct, frozen=True):
    """An array argument of a module.

    Attributes:
        dtype: Element type, in TVM's spelling.
        shape: Shape of the array.
    """

    dtype: str
    shape: tuple[int, ...]


class ModuleJob(msgspec.Struct, frozen=True):
    """A module of any kind to time.

    Attributes:
        library: What TVM loads it from; its function is ``main``.
        arguments: What it takes.
        sms: Number of SMs to time it on.
        timing: How to time.
    """

    library: Path
    arguments: tuple[ArrayArgument, ...]
    sms: int
    timing: Timing


TimedKernels = dict[int, dict[str, Timed]]  # by number of SMs and candidate id


class KernelFaultError(Exception):
    """A kernel failed on the device; of a job with several, which one is not known."""
