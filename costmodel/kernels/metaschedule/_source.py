"""MetaSchedule as a kernel source."""

from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels._nvrtc_version import nvrtc_compiler
from costmodel.kernels.metaschedule._build import build_kernel, check_installed
from costmodel.kernels.metaschedule._headers import precompile_headers
from costmodel.kernels.metaschedule._sample import open_space
from costmodel.kernels.metaschedule._target import make_target
from costmodel.kernels.metaschedule._without_torch import import_tvm_for
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.kernels.metaschedule._design_space import MetaScheduleSpace


class TvmSource(KernelSource):
    """A source whose kernels TVM compiles to shared libraries."""

    artifact = ".so"

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
        return build_kernel(open_space, candidate, kind, architecture, folder)
