"""Tasks of a build worker: build kernels and modules, and compute expected outputs."""

import hashlib
import io
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from costmodel.collector._engine import Engine, WorkerDiedError
from costmodel.failures import last_line
from costmodel.files import write_whole
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels.metaschedule._source import compile_module
from costmodel.liveness import HeldFolder, locked_byte
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome
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


def build_on_worker(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate in ``folder``; in a worker that nobody prepared this takes the time of the job."""
    prepare_build_worker((source,), kind, architecture)
    return build_or_read(source, candidate, kind, architecture, folder)


def build_once(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate while no other process builds it in ``folder``; one that comes later reads it."""
    with locked_byte(folder / ".turns", int(candidate.candidate_id[:15], 16)):
        return build_on_worker(source, candidate, kind, architecture, folder)


def build_or_read(
    source: KernelSource, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path
) -> Built:
    """Build a candidate unless it is in ``folder``, and say what tells its artifact from any other."""
    built = source.build(candidate, kind, architecture, folder)
    return replace(built, sha256=hash_artifact(built.library)) if built.library else built


def hash_artifact(artifact: Path) -> str:
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


class ModuleSource(NamedTuple):
    """A scheduled module, as text.

    Attributes:
        program: The ``tvm.IRModule``, by ``tvm.ir.save_json``.
        target: JSON of the target's fields.
    """

    program: str
    target: str


class ModuleBuilders:
    """Build workers for modules of one kind of device: each pays for TVM's import once in its life.

    Each library is the only file of a folder of its own, which whoever has measured it may delete; what is
    left is deleted with the workers.
    """

    def __init__(self, start_workers: Callable[[Path], Engine], timeout_s: float) -> None:
        """Make the folder.

        Args:
            start_workers: Gives workers that put temporary files into a folder: ``start_build_workers`` with
                all arguments but the last.
            timeout_s: Seconds after which a build is given up.
        """
        self._timeout_s = timeout_s
        self._folder = HeldFolder("costmodel-modules-")
        self._workers = start_workers(self._folder.path)

    def build(self, sources: Sequence[ModuleSource]) -> list[Built]:
        """Build modules side by side: one result each, in order, failures included."""
        jobs = [
            self._workers.submit(build_module, source, self._folder.path, timeout_s=self._timeout_s)
            for source in sources
        ]
        return [self._outcome(job) for job in jobs]

    def _outcome(self, job: "Future[Built]") -> Built:
        try:
            return job.result()
        except TimeoutError:
            return Built(Outcome.TIMEOUT, error=f"the build took more than {self._timeout_s:g} s")
        except WorkerDiedError as error:
            return Built(Outcome.COMPILE_ERROR, error=f"the build worker died ({error.reason})")

    def close(self) -> None:
        """End the processes and delete what they built. May be called twice."""
        self._workers.close()
        self._folder.delete()


def build_module(source: ModuleSource, folder: Path) -> Built:
    """Compile a module to a shared library in a new folder in ``folder``; runs in a worker process."""
    import tvm

    own = Path(tempfile.mkdtemp(prefix="module-", dir=folder))
    try:
        target = tvm.target.Target(json.loads(source.target))
        library = own / "module.so"
        compile_module(tvm.ir.load_json(source.program), target).export_library(str(library))
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is this module's outcome)
        shutil.rmtree(own, ignore_errors=True)
        return Built(Outcome.COMPILE_ERROR, error=last_line(error))
    return Built(Outcome.OK, library)
