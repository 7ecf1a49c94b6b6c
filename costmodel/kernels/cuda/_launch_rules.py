"""What a description says of the launch of a config: grid, block, shared memory, and what it moves."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.kernels.cuda._description import Description
from costmodel.kernels.cuda._t1 import Expression
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._geometry import Geometry, launch_columns

_BLOCK_SIZES = ("block_size_x", "block_size_y", "block_size_z")  # Kernel Tuner's names


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
        if description.workload.flops is not None:
            self._facts["flops"] = Formula(description.workload.flops)
        self._calls = {
            call: {
                name: Formula(text) for name, text in msgspec.structs.asdict(said).items() if text is not None
            }
            for call, said in description.workload.library.items()
        }
        self._check_names()

    def values(self, columns: Mapping[str, Any], dims: Mapping[str, float]) -> dict[str, Any]:
        """What formulas may use: the columns of the parameters, dims with facts, and ``ProblemSize``."""
        values = {**columns, **dims}
        return {**values, "ProblemSize": self._problem_sizes(values, dims)}

    def fixed(self, dims: Mapping[str, float]) -> dict[str, Any]:
        """What conditions may use beside the parameters: the dims, and ``ProblemSize`` where these say it."""
        needed = {name for size in self._problem for name in size.names}
        return self.values({}, dims) if needed <= set(dims) else dict(dims)

    def geometry(self, columns: Mapping[str, Any], dims: Mapping[str, float], rows: int) -> Geometry:
        """Grid, block and dynamic shared memory of each config."""
        values = self.values(columns, dims)
        block = np.stack([_whole(size, values, rows) for size in self._block], axis=1)
        sizes = self._problem_columns(values, dims, rows)
        divisors = [_product_of(axis, values, rows) for axis in self._divisors]
        grid = np.stack(list(map(_divided_up, sizes, divisors)), axis=1)
        counts = Geometry(grid, block, np.zeros(rows, dtype=np.int64)).counts
        return Geometry(grid, block, _whole(self._dynamic, {**values, **counts}, rows))

    def facts(
        self, columns: Mapping[str, Any], dims: Mapping[str, float], rows: int, flops: int = 0
    ) -> dict[str, FloatArray]:
        """Each field of ``KernelLaunch`` as ``(n, 1)``, 0 where nothing says it.

        Args:
            columns: Parameters of the configs.
            dims: Sizes of the workload, and facts of its data.
            rows: Number of configs, n.
            flops: Operations of a run where the description does not say them; 0 where unknown.
        """
        geometry, values = self.geometry(columns, dims, rows), self.values(columns, dims)
        return launch_columns(geometry, self._facts, values, flops or None)

    def call_facts(self, call: str, dims: Mapping[str, float]) -> dict[str, int]:
        """What is said of a library's call, by field of ``KernelLaunch``, in whole numbers."""
        return {name: int(formula.value(dims)) for name, formula in self._calls[call].items()}

    def _problem_sizes(self, values: Mapping[str, Any], dims: Mapping[str, float]) -> list[Any]:
        if self._description.sizes_are_dims:
            return list(dims.values())
        given = len(self._description.kernel_specification.problem_sizes)
        return [size.value(values) for size in self._problem[:given]]

    def _problem_columns(
        self, values: Mapping[str, Any], dims: Mapping[str, float], rows: int
    ) -> list[NDArray[np.int64]]:
        if not self._description.sizes_are_dims:
            return [_whole(size, values, rows) for size in self._problem]
        return [np.full(rows, size) for size in (*dims.values(), 1, 1)[:3]]

    def _check_names(self) -> None:
        section = self._description.workload
        known = {*self._description.parameters, *self._description.dims, *section.facts}
        for formula in (*self._problem, *(each for call in self._calls.values() for each in call.values())):
            formula.check_names(known)
        known |= {"ProblemSize"}
        for formula in (*self._block, *(each for axis in self._divisors for each in axis)):
            formula.check_names(known)
        known |= {"blocks", "threads"}
        for formula in (self._dynamic, *self._facts.values()):
            formula.check_names(known)


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
