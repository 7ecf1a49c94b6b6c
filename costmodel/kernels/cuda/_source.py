"""Families of CUDA kernels as a kernel source."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from costmodel.kernels._built import Built
from costmodel.kernels._nvrtc_version import nvrtc_compiler
from costmodel.kernels.cuda._build import build_family
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._nvrtc import check_nvrtc
from costmodel.kernels.family._source import FamilySource
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind

SHIPPED = Path(__file__).parent / "families"


class CudaSource(FamilySource):
    """CUDA kernels with declared parameters: families of one's own, then those that ship.

    Args:
        places: Descriptions, or folders that hold one each.
    """

    name = "cuda"

    @classmethod
    def at(cls, place: str) -> Sequence[CudaFamily]:
        """The family of a description, or of the folder that holds it."""
        return (_loaded(Path(place).resolve()),)

    @classmethod
    def shipped(cls) -> Sequence[CudaFamily]:
        """The families in ``families``."""
        return [_loaded(folder) for folder in _shipped_folders()]

    @staticmethod
    def compile(family: CudaFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
        """Compile a candidate with NVRTC."""
        return build_family(family, candidate, architecture, folder)

    def check_installed(self, kind: TargetKind) -> None:
        """Check for NVRTC."""
        check_nvrtc()

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """The version of NVRTC."""
        return nvrtc_compiler()

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Load NVRTC."""
        check_nvrtc()


@cache
def _shipped_folders() -> tuple[Path, ...]:
    return tuple(sorted(path.parent for path in SHIPPED.glob("*/*.json") if path.stem == path.parent.name))


@cache
def _loaded(path: Path) -> CudaFamily:
    return CudaFamily.load(path)
