"""What a space needs of a family: a kernel with declared parameters."""

from collections.abc import Mapping
from typing import Any, Protocol

from costmodel.arrays import FloatArray
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._geometry import Geometry
from costmodel.records import Workload

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
    def conditions(self) -> tuple[Formula, ...]:
        """What must hold of each config."""
        ...

    def fixed(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """What conditions may use beside the parameters."""
        ...

    def geometry(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> Geometry:
        """Grid, block and dynamic shared memory of each config."""
        ...

    def launches(self, workload: Workload, columns: Mapping[str, Any], rows: int) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n, 1)``, NaN where the family does not say it."""
        ...
