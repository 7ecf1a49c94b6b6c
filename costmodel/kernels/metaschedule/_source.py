"""MetaSchedule as a kernel source, which compiles scheduled programs to shared libraries."""

import os
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError, InvalidConfigError, MissingExtraError
from costmodel.failures import last_line
from costmodel.files import replacing, write_whole
from costmodel.kernels._artifact import Built, kernel_resources
from costmodel.kernels._base import KernelSource
from costmodel.kernels._design_space import sample
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.cuda._nvrtc import nvrtc_compiler
from costmodel.kernels.metaschedule._tvm_start import import_tvm_for, make_target, precompile_headers
from costmodel.reading import exists
from costmodel.records._candidate import Candidate, KernelLaunch
from costmodel.records._identity import content_id
from costmodel.records._measurement import Outcome
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace


@lru_cache(maxsize=64)
def open_space(workload: Workload, kind: TargetKind) -> "MetaScheduleSpace":
    """MetaSchedule's design space of a workload; the same object for the same arguments.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    if find_spec("tvm") is None:
        raise MissingExtraError("A MetaSchedule design space", "tvm")
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace  # loads TVM

    return MetaScheduleSpace(workload, kind)


def sample_candidates(
    workload: Workload, kind: TargetKind, count: int, seed: int, **options: Any
) -> list[Candidate]:
    """Draw valid candidates of a workload that all lower to different programs; see ``kernels.sample``.

    Raises:
        MissingExtraError: TVM is not installed.
    """
    return sample(open_space(workload, kind), count, seed, **options)


def lowered_launches(module: Any) -> tuple[KernelLaunch, ...]:
    """What the lowered program of any scheduled module says of its kernels, see ``KernelLaunch``.

    Takes 2 to 15 ms, as TVM's own features do.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors, with one function ``main``.

    Returns:
        The kernels in order of launch; none where the program cannot be lowered or has sizes that are not
        known.
    """
    from costmodel.kernels.metaschedule._lowered import kernel_launches  # loads TVM

    try:
        return kernel_launches(module)
    except Exception:  # noqa: BLE001 (TVM raises its own error types; of such a program nothing is known)
        return ()


# Those that TVM looks for (tvm.support.cc.get_cc), after the variables CXX and CC.
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def compile_candidate(
    open_space: Callable[[Workload, TargetKind], "MetaScheduleSpace"],
    candidate: Candidate,
    kind: TargetKind,
    architecture: str,
    folder: Path,
) -> Built:
    """Compile ``candidate`` to a shared library in ``folder``, unless it is there; failure is an outcome.

    ``open_space`` gives the space that it was chosen from, which is needed only if it is not there.

    Beside the library lies a file with the content address of its source, written last.
    """
    library = folder / f"{candidate.candidate_id}.so"
    note = library.with_suffix(".hash")
    if exists(note):
        return Built(Outcome.OK, library, note.read_text(encoding="ascii"), kernel_resources(library))
    try:
        module = open_space(candidate.workload, kind).schedule(candidate.config).mod
        executable = compile_module(module, make_target(kind, architecture))
        with replacing(library) as partial:
            executable.export_library(str(partial))
    except InvalidConfigError as error:
        return Built(Outcome.INVALID_CONFIG, error=str(error))
    except Exception as error:  # noqa: BLE001 (whatever the compiler raises is this candidate's outcome)
        return Built(Outcome.COMPILE_ERROR, error=last_line(error))
    kernel_hash = content_id(str(executable.mod.imports[0].inspect_source("cuda"))) if kind == "cuda" else ""
    write_whole(note, kernel_hash.encode("ascii"))
    return Built(Outcome.OK, library, kernel_hash, kernel_resources(library))


def compile_module(module: Any, target: Any) -> Any:
    """TVM executable of a scheduled module."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    with target:  # where NVRTC learns the architecture; it would ask the GPU, which is hidden here
        return tvm.compile(module, target=target)


def compile_cubin(candidate: Candidate, architecture: str) -> bytes:
    """Compile a kernel by NVRTC alone: where there is no driver, TVM leaves that to whoever loads it.

    Raises:
        InvalidConfigError: No valid kernel can be made from the config.
    """
    from tvm.support import nvcc

    target = make_target("cuda", architecture)
    module = open_space(candidate.workload, "cuda").schedule(candidate.config).mod
    source = str(compile_module(module, target).mod.imports[0].inspect_source("cuda"))
    return bytes(nvcc.compile_cuda(source, target_format="cubin", arch=str(target.arch), compiler="nvrtc"))


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


class TvmSource(KernelSource):
    """A source whose kernels TVM compiles to shared libraries."""

    artifact = ".so"
    # Where a driver is, TVM opens it when it is imported, and what is forked then crashes in NVRTC (on H200).
    # Torch, most of that import, opens nothing.
    modules, unshared_modules = (("torch",), ("tvm",)) if Path("/dev/nvidiactl").exists() else (("tvm",), ())

    def check_installed(self, kind: TargetKind) -> None:
        """Check for TVM, and for the compiler that links its kernels."""
        check_installed(kind)

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """The version of NVRTC for a GPU; that of TVM the device's process tells."""
        return nvrtc_compiler() if kind == "cuda" else {}

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Import TVM, and let NVRTC parse CUDA's headers."""
        import_tvm_for(kind)
        target = make_target(kind, architecture)
        if kind == "cuda":
            precompile_headers(str(target.arch))


class MetaSchedule(TvmSource):
    """The kernels that TVM's MetaSchedule makes of an operator, on a GPU or a CPU."""

    name = "metaschedule"

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """All operators."""
        return not workload.is_foreign

    def space(self, workload: Workload, kind: TargetKind) -> "MetaScheduleSpace":
        """MetaSchedule's design space; the same object for the same arguments."""
        return open_space(workload, kind)

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Compile a candidate to a shared library that TVM loads."""
        return compile_candidate(open_space, candidate, kind, architecture, folder)

    def read(
        self, candidate: Candidate, kind: TargetKind, architecture: str, cache: Path | None = None
    ) -> Reading:
        """Read a candidate's facts in the PTX of its one kernel; nothing is kept in ``cache``."""
        if kind != "cuda":
            return super().read(candidate, kind, architecture, cache)
        try:
            from costmodel.kernels.metaschedule._read import read_program  # loads TVM

            module = open_space(candidate.workload, kind).schedule(candidate.config).mod
            compiler = partial(compile_module, target=make_target(kind, architecture))
            return Reading(read_program(module, compiler, architecture))
        except Exception as error:  # noqa: BLE001 (of TVM or NVRTC: the kernel stays unread)
            return Reading(note=describe_failure(error))
