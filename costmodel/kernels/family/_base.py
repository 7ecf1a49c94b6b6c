"""What a space needs of a family: a kernel with declared parameters."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._geometry import Geometry
from costmodel.records._workload import Workload

Choice = int | float | str


class Family(Protocol):
    """A kernel with declared parameters, for workloads of one kind at any sizes."""

    @property
    def name(self) -> str:
        """Its name, in letters that names of workloads take."""
        ...

    @property
    def space_name(self) -> str:
        """``<source>-<name>-<hash>`` of all that its kernels depend on: equal names mean equal spaces."""
        ...

    @property
    def choices(self) -> Mapping[str, tuple[Choice, ...]]:
        """The choices of each parameter, in order."""
        ...

    @property
    def default_choices(self) -> Mapping[str, Choice]:
        """What is taken of each parameter where nothing is known; it need not meet the conditions."""
        ...

    @property
    def other_starts(self) -> Sequence[Mapping[str, Choice]]:
        """What is changed of the default in each other config that is measured before those of a search."""
        ...

    @property
    def condition_formulas(self) -> tuple[Formula, ...]:
        """What must hold of each config."""
        ...

    def fixed(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """Tell what conditions may use beside the parameters."""
        ...

    def geometry(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> Geometry:
        """Return grid, block and dynamic shared memory of each config."""
        ...

    def launches(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> dict[str, FloatArray]:
        """Return each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it."""
        ...

    @property
    def file(self) -> Path:
        """The file that describes it."""
        ...

    @property
    def remarks(self) -> Sequence[str]:
        """What a user should know of it, in sentences."""
        ...

    def workload(self, **dims: int) -> Workload:
        """Tell what it computes at these sizes; those that are not given are its own."""
        ...

    def computes(self, workload: Workload) -> bool:
        """Tell whether a workload is one of its own."""
        ...

    def own_arguments(self, workload: Workload) -> list[NDArray[Any]]:
        """Tell what kernels take of a workload that is no operator's, as ``KernelSource.arguments``."""
        ...

    def own_outputs(self, workload: Workload) -> tuple[int, ...]:
        """As ``KernelSource.outputs``."""
        ...

    def own_reference(self, workload: Workload) -> list[NDArray[Any]] | None:
        """As ``KernelSource.reference``."""
        ...

    def own_tolerance(self, workload: Workload) -> float:
        """As ``KernelSource.tolerance``."""
        ...


def make_sized_workload(
    name: str, kind: str, known: Mapping[str, int], dtype: str, dims: Mapping[str, int]
) -> Workload:
    """Return the workload of a family at given sizes.

    Args:
        name: Name of the family.
        kind: Kind of the workload.
        known: Its dims, and their sizes where nothing else is asked for.
        dtype: Element type.
        dims: What is asked for.

    Raises:
        CostModelError: There is no such dimension, or a size is not positive.
    """
    unknown = [dim for dim in dims if dim not in known]
    if unknown:
        raise CostModelError(
            f"{name} must be called with sizes of its dims {', '.join(known)}, but got {unknown[0]!r}."
        )
    try:
        return Workload(kind, {**known, **dims}, dtype)
    except ValueError as error:
        raise CostModelError(f"{name}: {str(error).rstrip('.')}.") from None
