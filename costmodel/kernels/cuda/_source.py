"""Families of CUDA kernels as a kernel source."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.kernels._base import KernelSource
from costmodel.kernels._built import Built
from costmodel.kernels.cuda import _arguments
from costmodel.kernels.cuda._build import build_family
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._nvrtc import check_nvrtc
from costmodel.kernels.family import FamilySpace
from costmodel.records import Candidate, Outcome, TargetKind, Workload

SHIPPED = Path(__file__).parent / "families"


class CudaSource(KernelSource):
    """CUDA kernels with declared parameters: families of one's own, then those that ship.

    Where several compute a workload, the first does.

    Args:
        families: Descriptions, or folders that hold one each.
    """

    name = "cuda"
    artifact = ".cubin"

    def __init__(self, families: Sequence[Path | str] = ()) -> None:
        self._paths = tuple(Path(path).resolve() for path in families)

    @property
    def families(self) -> list[CudaFamily]:
        """The families, those of one's own first; each file is read once a process.

        Raises:
            CostModelError: One cannot be read.
        """
        return [_loaded(path) for path in (*self._paths, *shipped_families())]

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Whether a family computes it, on a GPU."""
        return kind == "cuda" and any(family.computes(workload) for family in self.families)

    def space(self, workload: Workload, kind: TargetKind) -> FamilySpace:
        """The configs of the family that computes a workload."""
        return _space(self._family_of(workload, kind), workload.name)

    def check_installed(self, kind: TargetKind) -> None:
        """Check for NVRTC."""
        check_nvrtc()

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Load NVRTC."""
        check_nvrtc()

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Compile a candidate to machine code with a note of how it is launched."""
        for family in self.families:
            if family.space_name == candidate.space:
                return build_family(family, candidate, architecture, folder)
        return Built(
            Outcome.INVALID_CONFIG,
            error=f"{candidate.space} is no family as its files are now: it was changed, or is not given.",
        )

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """The operator's, or those that the description fills."""
        if not workload.is_foreign:
            return super().arguments(workload)
        return list(_arguments.make_arguments(self._family_of(workload), workload).values())

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Positions of the arguments that are compared."""
        if not workload.is_foreign:
            return super().outputs(workload)
        return _arguments.output_positions(self._family_of(workload))

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """The operator's output, or what ``reference.py`` of the family gives; None where there is none."""
        if not workload.is_foreign:
            return super().reference(workload)
        return _arguments.reference_of(self._family_of(workload), workload)

    def tolerance(self, workload: Workload) -> float:
        """Largest relative error of the outputs that is rounding."""
        if not workload.is_foreign:
            return super().tolerance(workload)
        return _arguments.tolerance_of(self._family_of(workload))

    def _family_of(self, workload: Workload, kind: TargetKind = "cuda") -> CudaFamily:
        if kind == "cuda":
            for family in self.families:
                if family.computes(workload):
                    return family
        known = ", ".join(family.workload().name for family in self.families)
        raise CostModelError(
            f"{workload.name} must be something that a CUDA family computes for cuda, such as {known}. "
            "Give the family's folder."
        )


@cache
def shipped_families() -> tuple[Path, ...]:
    """The folders of the families that ship."""
    return tuple(sorted(path.parent for path in SHIPPED.glob("*/*.json") if path.stem == path.parent.name))


@cache
def _loaded(path: Path) -> CudaFamily:
    return CudaFamily.load(path)


@cache
def _spaces() -> dict[tuple[str, str], FamilySpace]:
    return {}


def _space(family: CudaFamily, workload: str) -> FamilySpace:
    """A space, the same object for the same arguments: its configs are listed once."""
    spaces = _spaces()
    key = (family.space_name, workload)
    if key not in spaces:
        spaces[key] = family.space(Workload.parse(workload))
    return spaces[key]
