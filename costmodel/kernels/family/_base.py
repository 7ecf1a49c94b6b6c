"""What a space needs of a family, a kernel with declared parameters: how its configs are launched, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels.family._formula import Formula
from costmodel.records._candidate import KernelLaunch
from costmodel.records._device_table import list_architectures
from costmodel.records._platform import compute_capability
from costmodel.records._workload import Workload

_MOST_THREADS = 1024  # of a block, on every GPU
_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_RESERVED_SHARED_BYTES = 1024  # of an SM, for each block, from sm_80 on


@dataclass(frozen=True)
class Geometry:
    """How n configs are launched.

    Attributes:
        grid: ``(n, 3)`` blocks along each axis.
        block: ``(n, 3)`` threads of a block along each axis.
        dynamic_bytes: ``(n,)`` dynamic shared memory of a block.
    """

    grid: NDArray[np.int64]
    block: NDArray[np.int64]
    dynamic_bytes: NDArray[np.int64]

    @property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """What formulas of a launch may use: ``blocks`` and ``threads`` of a block, ``(n,)`` each."""
        return {"blocks": self.grid.prod(axis=1), "threads": self.block.prod(axis=1)}


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


def compute_launch_columns(
    geometry: Geometry, formulas: Mapping[str, Formula], values: Mapping[str, Any], flops: float | None
) -> dict[str, FloatArray]:
    """Each field of ``KernelLaunch`` as ``(n, 1)`` whole numbers, 0 where nothing says it, as in records.

    Args:
        geometry: How the n configs are launched.
        formulas: What is said of a launch, by field.
        values: What the formulas may use, beside ``blocks`` and ``threads``.
        flops: Operations of a run where no formula says them; None where unknown.
    """
    rows, counts = len(geometry.grid), geometry.counts
    found: dict[str, Any] = dict.fromkeys(KernelLaunch.__struct_fields__, np.zeros(rows))
    found |= {
        "blocks": counts["blocks"],
        "threads_per_block": counts["threads"],
        "vthreads": np.ones(rows),
        "shared_bytes": geometry.dynamic_bytes,
        "flops": np.full(rows, flops or 0),
    }
    found |= {name: formula.column({**values, **counts}, rows) for name, formula in formulas.items()}
    return {name: _whole(column).reshape(rows, 1) for name, column in found.items()}


def _whole(column: Any) -> FloatArray:
    """Return the whole part, 0 of what is no number."""
    return np.floor(np.nan_to_num(np.asarray(column, dtype=np.float64), posinf=0.0, neginf=0.0))


def check_launch(geometry: Geometry) -> None:
    """Check that the first config of a geometry can be launched on a GPU of any kind.

    Raises:
        InvalidConfigError: It cannot.
    """
    grid, block = geometry.grid[0].tolist(), geometry.block[0].tolist()
    if min(block) < 1 or np.prod(block) > _MOST_THREADS:
        raise InvalidConfigError(
            f"A block must have 1 to {_MOST_THREADS} threads, but got {_product(block)}."
        )
    if any(not 1 <= size <= most for size, most in zip(grid, _MOST_BLOCKS, strict=True)):
        raise InvalidConfigError(
            f"A grid must have 1 to {_product(_MOST_BLOCKS)} blocks, but got {_product(grid)}."
        )


def check_shared_bytes(shared_bytes: int, architecture: str) -> None:
    """Check that the shared memory of a block, static and dynamic, is not more than an architecture has.

    Raises:
        InvalidConfigError: It is; of an architecture that is not in the table of devices nothing is said.
    """
    limit = _most_shared_bytes(architecture)
    if limit is not None and shared_bytes > limit:
        raise InvalidConfigError(
            f"A block on {architecture} must have at most {limit} bytes of shared memory, but got "
            f"{shared_bytes}."
        )


@cache
def _most_shared_bytes(architecture: str) -> int | None:
    """Return the most shared memory of a block; None where it is not known."""
    capability = compute_capability(architecture)
    known = list_architectures().get(f"sm_{capability}")
    if known is None:
        return None
    return known.shared_bytes_per_sm - (_RESERVED_SHARED_BYTES if capability >= 80 else 0)


def _product(sizes: Any) -> str:
    return " x ".join(map(str, sizes))
