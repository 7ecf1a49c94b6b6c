"""What a build worker does: make kernels, and say what they should compute."""

import io
import os
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from costmodel.files import write_whole
from costmodel.kernels import KernelSource
from costmodel.records import TargetKind, Workload

# Memory of a build worker, which has 1 GiB at work; the libraries that it maps do not count. A config that
# unrolls without end should fail, and not have the operating system kill whatever it finds.
_MOST_BYTES = 8 << 30


def prepare_build_worker(sources: Sequence[KernelSource], kind: TargetKind, architecture: str) -> None:
    """Pay for what every build needs once in a worker's life, and give way to what measures."""
    os.nice(10)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MOST_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MOST_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    threadpool_limits(1)  # there is a worker for each core already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # building needs no GPU, and a CUDA context costs memory on it
    for source in sources:
        source.prepare(kind, architecture)


def write_reference(source: KernelSource, workload: Workload, folder: Path) -> Path | None:
    """Compute the right outputs on the CPU, once, and keep them in ``folder``; None where nobody knows them.

    Floating-point outputs are kept in float32.
    """
    path = folder / f"{workload.name}.npz"
    if not path.exists():
        outputs = source.reference(workload)
        if outputs is None:
            return None
        buffer = io.BytesIO()
        kept = [each.astype(np.float32) if each.dtype.kind == "f" else each for each in outputs]
        np.savez(buffer, *kept, allow_pickle=False)
        write_whole(path, buffer.getvalue())
    return path
