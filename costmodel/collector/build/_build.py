"""What a build worker does: make a kernel of a candidate."""

import os
import resource
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import msgspec
from threadpoolctl import threadpool_limits

from costmodel.collector.build._cubin import kernel_resources
from costmodel.collector.build._nvrtc import precompile_headers
from costmodel.errors import CostModelError, InvalidConfigError, MissingExtraError, last_line
from costmodel.files import write_whole
from costmodel.kernels.metaschedule import make_target, open_space
from costmodel.records import Candidate, KernelResources, Outcome, TargetKind, content_id


class Built(msgspec.Struct, frozen=True):
    """What a build gave.

    Attributes:
        outcome: How it ended.
        library: The shared library; None if it failed.
        kernel_hash: Content address of the CUDA source; empty on a CPU.
        resources: What the compiler gave each CUDA kernel.
        error: Why it failed.
    """

    outcome: Outcome
    library: Path | None = None
    kernel_hash: str = ""
    resources: tuple[KernelResources, ...] = ()
    error: str = ""


# Memory of a build worker, which has 1 GiB at work; the libraries that it maps do not count. A config that
# unrolls without end should fail, and not have the operating system kill whatever it finds.
_MOST_BYTES = 8 << 30
# Those that TVM looks for (tvm.support.cc.get_cc), after the variables CXX and CC.
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def prepare_build_worker(kind: TargetKind, architecture: str) -> None:
    """Pay for TVM's import and CUDA's headers once in a worker's life, and give way to what measures."""
    os.nice(10)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MOST_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MOST_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    threadpool_limits(1)  # there is a worker for each core already
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # building needs no GPU, and a CUDA context costs memory on it
    target = make_target(kind, architecture)  # imports TVM
    if kind == "cuda":
        precompile_headers(str(target.arch))


def build_kernel(candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
    """Compile ``candidate`` to a shared library in ``folder``, unless it is there; failure is an outcome.

    Beside the library lies a file with the content address of its source, written last.
    """
    library = folder / f"{candidate.candidate_id}.so"
    note = library.with_suffix(".hash")
    if note.exists():
        return Built(Outcome.OK, library, note.read_text(encoding="ascii"), kernel_resources(library))
    try:
        module = _compile(candidate, kind, architecture)
        partial = library.with_suffix(f".{os.getpid()}.so")
        module.export_library(str(partial))
        partial.replace(library)
    except InvalidConfigError as error:
        return Built(Outcome.INVALID_CONFIG, error=str(error))
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is this candidate's outcome)
        return Built(Outcome.COMPILE_ERROR, error=last_line(error))
    kernel_hash = content_id(str(module.mod.imports[0].inspect_source("cuda"))) if kind == "cuda" else ""
    write_whole(note, kernel_hash.encode("ascii"))
    return Built(Outcome.OK, library, kernel_hash, kernel_resources(library))


def _compile(candidate: Candidate, kind: TargetKind, architecture: str) -> Any:
    """TVM executable of the candidate."""
    module = open_space(candidate.workload, kind).schedule(candidate.config).mod
    return compile_module(module, make_target(kind, architecture))


def compile_module(module: Any, target: Any) -> Any:
    """TVM executable of a scheduled module."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    with target:  # where NVRTC learns the architecture; it would ask the GPU, which is hidden here
        return tvm.compile(module, target=target)


def check_installed(kind: TargetKind) -> None:
    """Check for TVM, and for the compiler that links its kernels.

    Raises:
        CostModelError: One of them is missing.
    """
    if find_spec("tvm") is None:
        raise MissingExtraError(f"Measuring on {kind}", "tvm")
    if not (os.environ.get("CXX") or os.environ.get("CC") or any(map(which, _COMPILERS))):
        raise CostModelError(
            f"Measuring on {kind} must have a C++ compiler to link kernels, but none of "
            f"{', '.join(_COMPILERS)} is on the PATH. Install one, or name it in CXX."
        )
