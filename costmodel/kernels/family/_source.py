"""Families of kernels with declared parameters as a kernel source; Python files of users as modules."""

import importlib.util
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from costmodel.errors import CostModelError, shorten
from costmodel.files import check_not_open_to_all
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._space import FamilySpace
from costmodel.reading import is_file
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload


class FamilySource(KernelSource):
    """Kernels of families: of those of one's own first, then of those that ship.

    Where several compute a workload, the first does.

    Args:
        places: Where families of one's own are.
    """

    artifact = ".cubin"

    def __init__(self, places: Sequence[Path | str] = ()) -> None:
        self._places = tuple(map(str, places))

    @property
    def families(self) -> list[Family]:
        """The families, those of one's own first; each file is read once a process.

        Raises:
            CostModelError: One cannot be read.
        """
        return [*(family for place in self._places for family in self.at(place)), *self.shipped()]

    @classmethod
    @abstractmethod
    def at(cls, place: str) -> Sequence[Family]:
        """Return the families at a place.

        Raises:
            CostModelError: They cannot be read.
        """

    @classmethod
    @abstractmethod
    def shipped(cls) -> Sequence[Family]:
        """Return the families that ship."""

    @staticmethod
    @abstractmethod
    def compile(family: Any, candidate: Candidate, architecture: str, folder: Path) -> Built:
        """Compile a candidate of a family to machine code with a note of how it is launched."""

    def makes(self, workload: Workload, kind: TargetKind) -> bool:
        """Tell whether a family computes it, on a GPU."""
        return kind == "cuda" and any(family.computes(workload) for family in self.families)

    def space(self, workload: Workload, kind: TargetKind) -> FamilySpace:
        """Return the configs of the family that computes a workload."""
        return _space(self._family_of(workload, kind), workload)

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        """Compile a candidate to machine code with a note of how it is launched."""
        for family in self.families:
            if family.space_name == candidate.space:
                return self.compile(family, candidate, architecture, folder)
        return Built(
            Outcome.INVALID_CONFIG,
            error=f"{candidate.space} is no family as its files are now: it was changed, or is not given.",
        )

    def arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Return the operator's, or those that the family makes."""
        if not workload.is_foreign:
            return super().arguments(workload)
        return self._family_of(workload).own_arguments(workload)

    def outputs(self, workload: Workload) -> tuple[int, ...]:
        """Return the positions of the arguments that are compared."""
        if not workload.is_foreign:
            return super().outputs(workload)
        return self._family_of(workload).own_outputs(workload)

    def reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """Return the operator's output, or what the family says; None where it says nothing."""
        if not workload.is_foreign:
            return super().reference(workload)
        return self._family_of(workload).own_reference(workload)

    def tolerance(self, workload: Workload) -> float:
        """Return the largest relative error of the outputs that is rounding."""
        if not workload.is_foreign:
            return super().tolerance(workload)
        return self._family_of(workload).own_tolerance(workload)

    def _family_of(self, workload: Workload, kind: TargetKind = "cuda") -> Family:
        if kind == "cuda":
            for family in self.families:
                if family.computes(workload):
                    return family
        known = ", ".join(family.workload().name for family in self.families)
        raise CostModelError(
            f"{workload.name} must be something that a family of {self.name} computes for cuda, such as "
            f"{known}. Give the family's place."
        )


@cache
def _spaces() -> dict[tuple[str, str], FamilySpace]:
    return {}


def _space(family: Family, workload: Workload) -> FamilySpace:
    """Return a space, the same object for the same arguments: its configs are listed once."""
    spaces, key = _spaces(), (family.space_name, workload.name)
    if key not in spaces:
        spaces[key] = FamilySpace(family, Workload.parse(workload.name))
    return spaces[key]


@cache
def load_module(file: Path) -> ModuleType:
    """Run a file as a module, once a process.

    Args:
        file: Its whole path.

    Raises:
        CostModelError: There is no such file, every user may write to it, or it fails.
    """
    # Triton looks the module of a kernel up by its name.
    return run_file(file, "_costmodel_" + "_".join((*file.parent.parts[1:], file.stem)).replace(".", "_"))


def run_file(file: Path, name: str) -> ModuleType:
    """Run a file of Python as a module.

    Args:
        file: Its path.
        name: What the module is called.

    Raises:
        CostModelError: There is no such file, every user may write to it, or it fails.
    """
    if not is_file(file):
        raise CostModelError(f"A Python file must exist at {file}, but does not.")
    check_not_open_to_all(file)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise CostModelError(f"A Python file must end in .py, but got {file}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with as_fault_of(file):
        spec.loader.exec_module(module)
    return module


def find_in(module: ModuleType, name: str, file: Path) -> Any:
    """What a name stands for in a file that was run.

    Raises:
        CostModelError: For nothing, or the file fails when it is asked for it.
    """
    with as_fault_of(file):
        if hasattr(module, name):
            return getattr(module, name)
    raise CostModelError(f"{file} must define {name}, but does not.")


@contextmanager
def as_fault_of(file: Path) -> Iterator[None]:
    """Tell whatever a user's file raises in this block, but for Ctrl-C, as its fault.

    Raises:
        CostModelError: It raises something, or ends the program.
    """
    try:
        yield
    except (CostModelError, KeyboardInterrupt):
        raise
    except BaseException as error:
        said = ""
        with suppress(Exception):  # of its own words
            said = shorten(f": {error}")
        raise CostModelError(f"{file} must run, but raises {type(error).__name__}{said}.") from error
