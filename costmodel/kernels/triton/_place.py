"""Where families of Triton kernels are: a file of Python, or the folder that holds it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.kernels.family._module import load_module
from costmodel.kernels.triton._family import TritonFamily
from costmodel.reading import is_file, is_folder, read_text

_FILE, _ONE, _SEVERAL = "family.py", "FAMILY", "FAMILIES"


def families_at(place: str) -> Sequence[TritonFamily]:
    """The families of a file, which is run.

    Args:
        place: ``kernel.py``, which defines FAMILY or FAMILIES; ``kernel.py:name`` for one under another name;
            or a folder with ``family.py``.

    Raises:
        CostModelError: There is no such file, it fails, or it defines no families.
    """
    path, _, name = place.partition(".py:")
    file = Path(f"{path}.py" if name else place).resolve()
    return _families(file / _FILE if is_folder(file) else file, name)


def is_family_place(place: str) -> bool:
    """Whether a place is a folder with ``family.py``, or a file that speaks of ``TritonFamily``."""
    path, _, name = place.partition(".py:")
    file = Path(f"{path}.py" if name else place)
    if is_folder(file):
        return is_file(file / _FILE)
    return file.suffix == ".py" and is_file(file) and "TritonFamily" in read_text(file, "a Python file")


@cache
def _families(file: Path, name: str) -> tuple[TritonFamily, ...]:
    module = load_module(file)
    found = [getattr(module, each, None) for each in ([name] if name else [_ONE, _SEVERAL])]
    families = [f for each in found for f in (each if isinstance(each, list | tuple) else [each]) if f]
    if not families or not all(isinstance(family, TritonFamily) for family in families):
        wanted = name or f"{_ONE} or {_SEVERAL}"
        raise CostModelError(f"{file} must define {wanted}, one TritonFamily or a list of them.")
    return tuple(families)
