"""Families of Triton kernels as a kernel source."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from costmodel.errors import MissingExtraError
from costmodel.kernels._built import Built
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.triton._build import build_family
from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._place import families_at
from costmodel.records._candidate import Candidate
from costmodel.records._platform import TargetKind

SHIPPED = Path(__file__).parent / "families"


class TritonSource(FamilySource):
    """Triton kernels with declared parameters: families of one's own, then those that ship.

    Choosing among them needs no Triton, building them does; neither needs a GPU.

    Args:
        places: Files that define FAMILY or FAMILIES, ``file.py:name``, or folders with ``family.py``.
    """

    name = "triton"

    @classmethod
    def at(cls, place: str) -> Sequence[TritonFamily]:
        """The families of a file."""
        return families_at(place)

    @classmethod
    def shipped(cls) -> Sequence[TritonFamily]:
        """The families in ``families``."""
        return _shipped()

    @staticmethod
    def compile(family: TritonFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
        """Compile a candidate with Triton."""
        return build_family(family, candidate, architecture, folder)

    def check_installed(self, kind: TargetKind) -> None:
        """Check for Triton."""
        try:
            import triton  # noqa: F401
        except ImportError:
            raise MissingExtraError("Building Triton kernels", "triton") from None

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        """The version of Triton."""
        import triton

        return {"triton": triton.__version__}

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Load Triton's compiler."""
        self.check_installed(kind)


@cache
def _shipped() -> tuple[TritonFamily, ...]:
    folders = sorted(file.parent for file in SHIPPED.glob("*/family.py"))
    return tuple(family for folder in folders for family in families_at(str(folder)))
