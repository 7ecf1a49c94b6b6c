"""Tasks of a build worker: build kernels, and compute their expected outputs."""

import fcntl
import hashlib
import io
import os
import resource
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from costmodel.files import write_whole
from costmodel.kernels._base import KernelSource
from costmodel.kernels._built import Built
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

# Memory of a build worker, which has 1 GiB at work; the libraries that it maps do not count. A config that
# unrolls without end should fail, and not have the operating system kill whatever it finds.
_MOST_BYTES = 8 << 30
# What this process is prepared for: name of the source, kind of device, architecture.
_PREPARED: set[tuple[str, TargetKind, str]] = set()


def prepare_build_worker(sources: Sequence[KernelSource], kind: TargetKind, architecture: str) -> None:
    """Pay for what every build needs once in a worker's life, and give way to what measures."""
    _give_way()
    for source in sources:
        if (source.name, kind, architecture) not in _PREPARED:
            source.prepare(kind, architecture)
            _PREPARED.add((source.name, kind, architecture))


@cache
def _give_way() -> None:
    os.nice(10)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MOST_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MOST_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    threadpool_limits(1)  # there is a worker for each core already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # building needs no GPU, and a CUDA context costs memory on it


def build_kernel(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate in ``folder``; in a worker that nobody prepared this takes the time of the job."""
    prepare_build_worker((source,), kind, architecture)
    return build_or_read(source, candidate, kind, architecture, folder)


def build_once(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate while no other process builds it in ``folder``; one that comes later reads it."""
    with (folder / ".turns").open("ab") as turns:
        fcntl.lockf(turns, fcntl.LOCK_EX, 1, int(candidate.candidate_id[:15], 16))  # until it is closed
        return build_kernel(source, candidate, kind, architecture, folder)


def build_or_read(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate unless it is in ``folder``, and say what tells its artifact from any other."""
    built = source.build(candidate, kind, architecture, folder)
    return replace(built, sha256=sha256_of(built.library)) if built.library else built


def sha256_of(artifact: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(artifact.read_bytes()).hexdigest()


def reference_name(candidate: Candidate) -> str:
    """Name of the file of a candidate's right outputs: those of an operator are the same in all spaces."""
    workload = candidate.workload
    return f"{candidate.space}.{workload.name}.npz" if workload.is_foreign else f"{workload.name}.npz"


def write_reference(source: KernelSource, workload: Workload, name: str, folder: Path) -> Path | None:
    """Compute the right outputs on the CPU, once, and keep them in ``folder``; None where nobody knows them.

    Floating-point outputs are kept in float32.
    """
    path = folder / name
    if not path.exists():
        outputs = source.reference(workload)
        if outputs is None:
            return None
        buffer = io.BytesIO()
        kept = [each.astype(np.float32) if each.dtype.kind == "f" else each for each in outputs]
        np.savez(buffer, *kept, allow_pickle=False)
        write_whole(path, buffer.getvalue())
    return path
