"""What a description says of the launch of a config: grid, block, shared memory, and what it moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.kernels.cuda._description import Description
from costmodel.kernels.cuda._formula import Formula
from costmodel.kernels.cuda._t1 import Expression
from costmodel.records import KernelLaunch, known_architectures

_BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")  # Kernel Tuner's names
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


class LaunchRules:
    """The formulas of a description for launches, over many configs at once.

    Raises:
        CostModelError: A formula uses a name that there is not, or nothing says how many threads a block has.
    """

    def __init__(self, description: Description) -> None:
        self._description = description
        spec, names = description.kernel_specification, description.parameters
        if spec.local_size is None and _BLOCK_SIZES[0] not in names:
            raise CostModelError(
                "LocalSize must say the threads of a block, or a parameter block_size_x, but neither does."
            )
        sizes = spec.local_size
        block: tuple[Expression, ...] = (
            (sizes.x, sizes.y, sizes.z)
            if sizes
            else tuple(name if name in names else 1 for name in _BLOCK_SIZES)
        )
        by_default = ((name,) if name in names else () for name in _BLOCK_SIZES)
        divisors = [given or other for given, other in zip(spec.grid_divisors, by_default, strict=True)]
        self._problem = [Formula(size) for size in (*spec.problem_sizes, 1, 1)[:3]]
        self._block = [Formula(size) for size in block]
        self._divisors = [[Formula(each) for each in axis] for axis in divisors]
        self._dynamic = Formula(spec.shared_memory)
        stated = msgspec.structs.asdict(description.workload.launch)
        self._facts = {name: Formula(text) for name, text in stated.items() if text is not None}
        flops = description.workload.flops
        self._flops = None if flops is None else Formula(flops)
        self._check_names()

    def values(self, columns: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
        """What formulas may use: the columns of the parameters, the dims, and ``ProblemSize``."""
        values = {**columns, **dims}
        return {**values, "ProblemSize": self._problem_sizes(values, dims)}

    def fixed(self, dims: Mapping[str, int]) -> dict[str, Any]:
        """What conditions may use beside the parameters: the dims, and ``ProblemSize`` where these say it."""
        needed = {name for size in self._problem for name in size.names}
        return self.values({}, dims) if needed <= set(dims) else dict(dims)

    def geometry(self, columns: Mapping[str, Any], dims: Mapping[str, int], rows: int) -> Geometry:
        """Grid, block and dynamic shared memory of each config."""
        values = self.values(columns, dims)
        block = np.stack([_whole(size, values, rows) for size in self._block], axis=1)
        sizes = self._problem_columns(values, dims, rows)
        divisors = [_product_of(axis, values, rows) for axis in self._divisors]
        grid = np.stack(list(map(_divided_up, sizes, divisors)), axis=1)
        dynamic = _whole(self._dynamic, {**values, **_counts(grid, block)}, rows)
        return Geometry(grid, block, dynamic)

    def facts(
        self, columns: Mapping[str, Any], dims: Mapping[str, int], rows: int, flops: int = 0
    ) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n, 1)``, NaN where the description does not say it.

        Args:
            columns: Parameters of the configs.
            dims: Sizes of the workload.
            rows: Number of configs, n.
            flops: Operations of a run where the description does not say them; 0 where unknown.
        """
        geometry = self.geometry(columns, dims, rows)
        values = {**self.values(columns, dims), **_counts(geometry.grid, geometry.block)}
        found = dict.fromkeys(KernelLaunch.__struct_fields__, np.full(rows, np.nan))
        found |= {
            "blocks": geometry.grid.prod(axis=1),
            "threads_per_block": geometry.block.prod(axis=1),
            "vthreads": np.ones(rows),
        }
        if geometry.dynamic_bytes.any():
            found["shared_bytes"] = geometry.dynamic_bytes
        if flops or self._flops is not None:
            found["flops"] = np.full(rows, flops) if self._flops is None else self._flops.column(values, rows)
        found |= {name: formula.column(values, rows) for name, formula in self._facts.items()}
        return {name: np.asarray(column, dtype=np.float64).reshape(rows, 1) for name, column in found.items()}

    def _problem_sizes(self, values: Mapping[str, Any], dims: Mapping[str, int]) -> list[Any]:
        if self._description.sizes_are_dims:
            return list(dims.values())
        given = len(self._description.kernel_specification.problem_sizes)
        return [size.value(values) for size in self._problem[:given]]

    def _problem_columns(
        self, values: Mapping[str, Any], dims: Mapping[str, int], rows: int
    ) -> list[NDArray[np.int64]]:
        if not self._description.sizes_are_dims:
            return [_whole(size, values, rows) for size in self._problem]
        return [np.full(rows, size) for size in (*dims.values(), 1, 1)[:3]]

    def _check_names(self) -> None:
        known = {*self._description.parameters, *self._description.dims}
        for formula in self._problem:
            formula.check_names(known)
        known |= {"ProblemSize"}
        for formula in (*self._block, *(each for axis in self._divisors for each in axis)):
            formula.check_names(known)
        known |= {"blocks", "threads"}
        for formula in (self._dynamic, *self._facts.values(), *([self._flops] if self._flops else [])):
            formula.check_names(known)


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
    """Most shared memory of a block; None where it is not known."""
    number = architecture.removeprefix("sm_").rstrip("abcdef")
    known = known_architectures().get(f"sm_{number}")
    if known is None:
        return None
    return known.shared_bytes_per_sm - (_RESERVED_SHARED_BYTES if int(number) >= 80 else 0)


def _whole(formula: Formula, values: Mapping[str, Any], rows: int) -> NDArray[np.int64]:
    """``(rows,)`` whole numbers, rounded towards zero as Kernel Tuner does."""
    return formula.column(values, rows).astype(np.int64)


def _product_of(formulas: Sequence[Formula], values: Mapping[str, Any], rows: int) -> NDArray[np.int64]:
    """``(rows,)`` products; 1 of nothing."""
    columns = [_whole(formula, values, rows) for formula in formulas]
    return np.prod(columns, axis=0, dtype=np.int64) if columns else np.ones(rows, dtype=np.int64)


def _divided_up(sizes: NDArray[np.int64], divisors: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(rows,)`` quotients, rounded up; 0, which is no grid, where a divisor is not positive."""
    return np.where(divisors > 0, -(-sizes // np.maximum(divisors, 1)), 0)


def _counts(grid: NDArray[np.int64], block: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {"blocks": grid.prod(axis=1), "threads": block.prod(axis=1)}


def _product(sizes: Any) -> str:
    return " x ".join(map(str, sizes))
