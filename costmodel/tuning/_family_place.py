"""Families of kernels of the user's own, by the folder or file that they are in."""

from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.metaschedule.programs._file import is_program_place
from costmodel.kernels.triton._place import is_family_place
from costmodel.kernels.triton._source import TritonSource


def find_family(place: Path | str) -> tuple[FamilySource, Family] | None:
    """A source with the family at a place, and the family; None where the place is none of a family.

    Args:
        place: The description of a CUDA kernel, a file of Python with a ``TritonFamily``, ``file.py:name``,
            or a folder with either.

    Raises:
        CostModelError: The family is not as it must be.
    """
    kind: type[FamilySource] = TritonSource if is_family_place(str(place)) else CudaSource
    if kind is CudaSource and (is_program_place(str(place)) or not Path(place).exists()):
        return None
    return kind([place]), kind.at(str(place))[0]


def open_family(place: Path | str) -> tuple[FamilySource, Family]:
    """As ``find_family``, where there must be one.

    Raises:
        CostModelError: There is none, or it is not as it must be.
    """
    found = find_family(place)
    if found is None:
        raise CostModelError(
            f"A family must be at {place}: the description of a CUDA kernel, a file of Python with a "
            "TritonFamily, or a folder with either."
        )
    return found
